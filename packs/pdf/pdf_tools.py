# /// script
# requires-python = ">=3.10"
# dependencies = ["pypdf>=5", "pypdfium2>=4.30", "pillow>=10"]
#
# [tool.onetool]
# threads = 1
# # The password of encrypted files.
# secrets = ["PDF_PASSWORD"]
# ///
"""Read, search, render, merge, split and fill PDF files."""

from __future__ import annotations

import io
import os
import pathlib
import re
import tempfile

import pypdf
import pypdfium2

from onetool import Image, get_config, get_secret, progress, resolve_path

pack = "pdf"

__all__ = ["info", "text", "search", "render", "merge", "extract", "rotate", "fields", "fill", "images"]

# Each may be changed in onetool.yaml as tools.pdf.<name in lower case>.
MAX_FILE_MB = 200
MAX_PAGES = 500
MAX_PIXELS = 20_000_000


def info(path: str) -> dict:
    """Describe a PDF: pages, their size, title, author, outline, and whether it is encrypted or a form.

    Args:
        path: The file.

    Returns:
        pages, size (of the first page, in points), metadata, outline (level, title, page), encrypted, form.

    Example:
        pdf.info(path="report.pdf")
    """
    reader = _reader(path)
    box = reader.pages[0].mediabox if reader.pages else None
    metadata = {str(key).lstrip("/"): str(value) for key, value in (reader.metadata or {}).items()}
    return {
        "pages": len(reader.pages),
        "size": [round(float(box.width), 1), round(float(box.height), 1)] if box else None,
        "metadata": metadata,
        "outline": _outline(reader, reader.outline, 1, []),
        "encrypted": reader.is_encrypted,
        "form": bool(reader.get_fields()),
    }


def text(path: str, pages: str = "") -> list[dict]:
    """Read the text of pages. A page that is only a picture gives an empty text; look at it with pdf.render.

    Args:
        path: The file.
        pages: Page numbers such as "1-3,7" or "5-". Empty: all of them.

    Returns:
        For each page: page (its number, from 1) and text.

    Example:
        pdf.text(path="report.pdf", pages="1-3")
    """
    document = _document(path)
    try:
        numbers = _numbers(pages, len(document))
        found = []
        for done, number in enumerate(numbers, start=1):
            found.append({"page": number, "text": _page_text(document, number)})
            progress(done, len(numbers), f"page {number}")
        return found
    finally:
        document.close()


def search(path: str, query: str, regex: bool = False, limit: int = 50) -> list[dict]:
    """Find a text in a PDF, in upper or lower case.

    Args:
        path: The file.
        query: What to look for.
        regex: Whether the query is a regular expression.
        limit: The most hits to return.

    Returns:
        For each hit: page, match, and context (the text around it).

    Example:
        pdf.search(path="report.pdf", query="revenue")
    """
    try:
        pattern = re.compile(query if regex else re.escape(query), re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"'{query}' is not a regular expression: {error}") from None
    document, found = _document(path), []
    try:
        for number in range(1, len(document) + 1):
            page = " ".join(_page_text(document, number).split())
            for match in pattern.finditer(page):
                if match.group():
                    around = page[max(0, match.start() - 80) : match.end() + 80]
                    found.append({"page": number, "match": match.group(), "context": around})
                if len(found) >= limit:
                    return found
        return found
    finally:
        document.close()


def render(path: str, page: int = 1, dpi: int = 110, save: str = "") -> Image | str:
    """Render a page as a picture.

    Args:
        path: The file.
        page: The page's number, from 1.
        dpi: Dots per inch, 20 to 600.
        save: A path that ends in .png or .jpg to save the picture at. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        pdf.render(path="report.pdf", page=2)
    """
    document = _document(path)
    try:
        (number,) = _numbers(str(page), len(document))
        source = document[number - 1]
        scale = max(20, min(dpi, 600)) / 72
        most = _setting("max_pixels", MAX_PIXELS)
        if source.get_width() * source.get_height() * scale * scale > most:
            raise ValueError(f"the picture would have more than {most} pixels\nhint: use a lower dpi")
        picture = source.render(scale=scale).to_pil().convert("RGB")
    finally:
        document.close()
    target = io.BytesIO()
    kind = "JPEG" if save.lower().endswith((".jpg", ".jpeg")) else "PNG"
    picture.save(target, format=kind)
    if not save:
        return Image(target.getvalue(), "image/png")
    if not save.lower().endswith((".png", ".jpg", ".jpeg")):
        raise ValueError(f"{save} must end in .png or .jpg")
    _save(resolve_path(save, write=True), target.getvalue())
    return save


def merge(paths: list[str], output: str) -> dict:
    """Join PDF files in the given order.

    Args:
        paths: The files.
        output: The path of the new file.

    Returns:
        path and pages of the new file.

    Example:
        pdf.merge(paths=["a.pdf", "b.pdf"], output="all.pdf")
    """
    if not paths:
        raise ValueError("there is nothing to merge: paths is empty")
    writer = pypdf.PdfWriter()
    for path in paths:
        writer.append(_reader(path), import_outline=True)
    return _write(writer, output)


def extract(path: str, pages: str, output: str) -> dict:
    """Copy some pages of a PDF into a new file, in the given order.

    Args:
        path: The file.
        pages: Page numbers such as "1-3,7" or "5-".
        output: The path of the new file.

    Returns:
        path and pages of the new file.

    Example:
        pdf.extract(path="report.pdf", pages="1,4-6", output="summary.pdf")
    """
    reader, writer = _reader(path), pypdf.PdfWriter()
    for number in _numbers(pages, len(reader.pages)):
        writer.add_page(reader.pages[number - 1])
    return _write(writer, output)


def rotate(path: str, angle: int, output: str, pages: str = "") -> dict:
    """Rotate pages clockwise.

    Args:
        path: The file.
        angle: 90, 180 or 270.
        output: The path of the new file.
        pages: Page numbers such as "1-3,7". Empty: all of them.

    Returns:
        path and pages of the new file.

    Example:
        pdf.rotate(path="scan.pdf", angle=90, output="upright.pdf")
    """
    if angle not in (90, 180, 270):
        raise ValueError(f"angle must be 90, 180 or 270, not {angle}")
    reader = _reader(path)
    wanted = set(_numbers(pages, len(reader.pages)))
    writer = pypdf.PdfWriter(clone_from=reader)
    for number, page in enumerate(writer.pages, start=1):
        if number in wanted:
            page.rotate(angle)
    return _write(writer, output)


def fields(path: str) -> list[dict]:
    """List the fields of a form.

    Args:
        path: The file.

    Returns:
        For each field: name, kind (text, choice, button or signature), value, and options of a choice.

    Example:
        pdf.fields(path="form.pdf")
    """
    kinds = {"/Tx": "text", "/Ch": "choice", "/Btn": "button", "/Sig": "signature"}
    found = []
    for name, field in (_reader(path).get_fields() or {}).items():
        value = field.get("/V")
        entry = {"name": name, "kind": kinds.get(field.get("/FT"), "group"), "value": None if value is None else str(value)}
        options = field.get("/Opt") or field.get("/_States_")
        if options:
            entry["options"] = [str(option[-1] if isinstance(option, list) else option) for option in options]
        found.append(entry)
    return found


def fill(path: str, values: dict[str, str], output: str) -> dict:
    """Fill the fields of a form and save it as a new file.

    Args:
        path: The form.
        values: Each value by its field's name; pdf.fields lists them.
        output: The path of the new file.

    Returns:
        path and pages of the new file.

    Example:
        pdf.fill(path="form.pdf", values={"name": "Ada"}, output="filled.pdf")
    """
    reader = _reader(path)
    known = reader.get_fields() or {}
    unknown = [name for name in values if name not in known]
    if unknown:
        raise LookupError(f"unknown fields: {', '.join(unknown)}\nhint: the fields are: {', '.join(known) or 'none'}")
    writer = pypdf.PdfWriter(clone_from=reader)
    for page in writer.pages:
        writer.update_page_form_field_values(page, values, auto_regenerate=False)
    writer.set_need_appearances_writer(True)
    return _write(writer, output)


def images(path: str, folder: str, pages: str = "", limit: int = 100) -> list[dict]:
    """Save the pictures that a PDF contains.

    Args:
        path: The file.
        folder: Where to save them.
        pages: Page numbers such as "1-3,7". Empty: all of them.
        limit: The most pictures to save.

    Returns:
        For each picture: page, path, width and height.

    Example:
        pdf.images(path="report.pdf", folder="pictures")
    """
    reader, found = _reader(path), []
    target = resolve_path(folder, write=True)
    for number in _numbers(pages, len(reader.pages)):
        for position, picture in enumerate(reader.pages[number - 1].images, start=1):
            if len(found) >= limit:
                return found
            suffix = pathlib.PurePath(picture.name).suffix.lower() or ".png"
            name = f"page{number}-{position}{suffix}"
            _save(target / name, picture.data)
            size = picture.image.size if picture.image else (None, None)
            found.append({"page": number, "path": f"{folder.rstrip('/')}/{name}", "width": size[0], "height": size[1]})
    return found


# ---- files ----------------------------------------------------------------------------------------------------------


def _setting(name: str, default: int) -> int:
    value = get_config("pdf", name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"tools.pdf.{name} must be a whole number above 0, not {value!r}")
    return value


def _file(path: str) -> pathlib.Path:
    full = resolve_path(path)
    if not full.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    most = _setting("max_file_mb", MAX_FILE_MB)
    if full.stat().st_size > most << 20:
        raise ValueError(f"{path} is larger than {most} MB\nhint: tools.pdf.max_file_mb allows more")
    return full


def _reader(path: str) -> pypdf.PdfReader:
    full = _file(path)
    try:
        reader = pypdf.PdfReader(full)
        if reader.is_encrypted and not reader.decrypt(get_secret("PDF_PASSWORD", "")):
            raise PermissionError(f"{path} is encrypted\nhint: put its password into secrets.yaml as PDF_PASSWORD")
        len(reader.pages)
    except pypdf.errors.PdfReadError as error:
        raise ValueError(f"{path} is not a PDF that can be read: {error}") from None
    return reader


def _document(path: str) -> pypdfium2.PdfDocument:
    full = _file(path)
    try:
        return pypdfium2.PdfDocument(full, password=get_secret("PDF_PASSWORD", None))
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise PermissionError(f"{path} is encrypted\nhint: put its password into secrets.yaml as PDF_PASSWORD") from None
        raise ValueError(f"{path} is not a PDF that can be read: {error}") from None


def _page_text(document: pypdfium2.PdfDocument, number: int) -> str:
    page = document[number - 1]
    try:
        return page.get_textpage().get_text_bounded().replace("\r\n", "\n").strip()
    finally:
        page.close()


def _numbers(pages: str, total: int) -> list[int]:
    """`1-3,7` as numbers, checked."""
    found: list[int] = []
    for part in filter(None, (part.strip() for part in (pages or f"1-{total}").split(","))):
        match = re.fullmatch(r"(\d*)(-?)(\d*)", part)
        if not match or part == "-":
            raise ValueError(f"'{part}' is not a page number or a range, such as 3 or 1-5")
        first = int(match[1] or 1)
        last = int(match[3] or total) if match[2] else first
        if first < 1 or last > total or last < first:
            raise ValueError(f"there is no page {part}: the file has {total} pages")
        found.extend(range(first, last + 1))
        if len(found) > _setting("max_pages", MAX_PAGES):
            raise ValueError(f"more than {_setting('max_pages', MAX_PAGES)} pages\nhint: name some, such as pages=\"1-100\"")
    return found


def _outline(reader: pypdf.PdfReader, entries: list, level: int, found: list[dict]) -> list[dict]:
    for entry in entries:
        if len(found) >= 500 or level > 20:
            break
        if isinstance(entry, list):
            _outline(reader, entry, level + 1, found)
        else:
            page = reader.get_destination_page_number(entry)
            found.append({"level": level, "title": str(entry.title), "page": None if page is None else page + 1})
    return found


def _write(writer: pypdf.PdfWriter, output: str) -> dict:
    if not output.lower().endswith(".pdf"):
        raise ValueError(f"{output} must end in .pdf")
    target = io.BytesIO()
    writer.write(target)
    _save(resolve_path(output, write=True), target.getvalue())
    return {"path": output, "pages": len(writer.pages)}


def _save(full: pathlib.Path, data: bytes) -> None:
    """The old file or the new one, never half of one."""
    full.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=full.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.chmod(temporary, 0o644)
    os.replace(temporary, full)

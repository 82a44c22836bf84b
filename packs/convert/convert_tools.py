# /// script
# requires-python = ">=3.10"
# dependencies = [
#     "pdfplumber>=0.11",
#     "python-docx>=1.1",
#     "python-pptx>=1.0",
#     "openpyxl>=3.1",
#     "markdownify>=0.13",
#     "beautifulsoup4>=4.12",
# ]
# ///
"""Documents as Markdown: PDF, Word, PowerPoint, Excel, HTML, CSV and plain text."""

from __future__ import annotations

import collections
import csv
import io
import os
import pathlib
import re
import tempfile
import zipfile

from onetool import get_config, progress, resolve_path

pack = "convert"

__all__ = ["to_markdown", "html", "folder"]

# Each may be changed in onetool.yaml as tools.convert.<name in lower case>.
MAX_FILE_MB = 100
MAX_UNPACKED_MB = 500
MAX_CHARS = 2_000_000
MAX_FILES = 500


def to_markdown(path: str, save: str = "", pages: str = "") -> str:
    """Convert a document to Markdown: headings, lists, tables, links and emphasis are kept; pictures are not.

    Args:
        path: A .pdf, .docx, .pptx, .xlsx, .html, .csv, .md or .txt file.
        save: Where to save the Markdown. Empty: return it.
        pages: For PDF and PowerPoint, page or slide numbers such as "1-3,7". Empty: all of them.

    Returns:
        The Markdown, or the path that it was saved at.

    Example:
        convert.to_markdown(path="report.docx")
    """
    text = _convert(path, pages)
    if not save:
        return text
    _save(resolve_path(save, write=True), text)
    return save


def html(text: str, base: str = "") -> str:
    """Convert HTML text to Markdown, without scripts, styles and navigation.

    Args:
        text: The HTML.
        base: The page's address, for links that are relative.

    Returns:
        The Markdown.

    Example:
        convert.html(text="<h1>Title</h1><p>Some <b>bold</b> text</p>")
    """
    return _html(text, base)


def folder(pattern: str, into: str) -> list[dict]:
    """Convert many documents, each into a Markdown file of its own.

    Args:
        pattern: Which files, such as "docs/**/*.docx".
        into: The folder for the Markdown files; their names are those of the documents with .md added.

    Returns:
        For each document: path, and saved or error. A document that cannot be converted does not stop the others.

    Example:
        convert.folder(pattern="inbox/*.pdf", into="inbox/markdown")
    """
    root = resolve_path(".")
    if pattern.startswith("/") or ".." in pathlib.PurePath(pattern).parts:
        raise ValueError(f"'{pattern}' must be relative to the project, without '..'")
    files = sorted(file for file in root.glob(pattern) if file.suffix.lower() in _KINDS and file.is_file())
    most = _setting("max_files", MAX_FILES)
    if len(files) > most:
        raise ValueError(f"'{pattern}' matches {len(files)} files, more than {most}\nhint: use a narrower pattern")
    results = []
    for done, file in enumerate(files, start=1):
        name = file.relative_to(root).as_posix()
        target = f"{into.rstrip('/')}/{name.replace('/', '__')}.md"
        try:
            _save(resolve_path(target, write=True), _convert(name, ""))
            results.append({"path": name, "saved": target})
        except (OSError, ValueError) as error:
            results.append({"path": name, "error": str(error)})
        progress(done, len(files), name)
    return results


# ---- files ----------------------------------------------------------------------------------------------------------


def _setting(name: str, default: int) -> int:
    value = get_config("convert", name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"tools.convert.{name} must be a whole number above 0, not {value!r}")
    return value


def _convert(path: str, pages: str) -> str:
    full = resolve_path(path)
    if not full.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    convert = _KINDS.get(full.suffix.lower())
    if convert is None:
        old = {".doc": ".docx", ".ppt": ".pptx", ".xls": ".xlsx"}.get(full.suffix.lower())
        hint = f"save it as {old} first" if old else f"known are {', '.join(_KINDS)}"
        raise ValueError(f"{path} is not of a kind that can be converted\nhint: {hint}")
    most = _setting("max_file_mb", MAX_FILE_MB)
    if full.stat().st_size > most << 20:
        raise ValueError(f"{path} is larger than {most} MB\nhint: tools.convert.max_file_mb allows more")
    try:
        text = convert(full, pages)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    most = _setting("max_chars", MAX_CHARS)
    if len(text) > most:
        hint = "convert some pages only, or set tools.convert.max_chars"
        raise ValueError(f"the Markdown of {path} has {len(text)} characters, more than {most}\nhint: {hint}")
    return text


def _unpacked(full: pathlib.Path) -> pathlib.Path:
    """Refuses an archive that would unpack to more memory than there should be."""
    most = _setting("max_unpacked_mb", MAX_UNPACKED_MB)
    try:
        with zipfile.ZipFile(full) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile:
        raise ValueError(f"{full.name} is not a {full.suffix} file") from None
    if size > most << 20:
        raise ValueError(f"{full.name} unpacks to more than {most} MB")
    return full


def _save(full: pathlib.Path, text: str) -> None:
    full.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=full.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o644)
    os.replace(temporary, full)


def _numbers(pages: str, total: int) -> list[int]:
    found: list[int] = []
    for part in filter(None, (part.strip() for part in (pages or f"1-{total}").split(","))):
        match = re.fullmatch(r"(\d+)(?:(-)(\d*))?", part)
        if not match:
            raise ValueError(f"'{part}' is not a page number or a range, such as 3 or 1-5")
        first = int(match[1])
        last = int(match[3] or total) if match[2] else first
        if first < 1 or last > total:
            raise ValueError(f"there is no page {part}: the file has {total} pages")
        found.extend(range(first, last + 1))
    return found


# ---- Markdown -------------------------------------------------------------------------------------------------------


def _table(rows: list[list]) -> str:
    rows = [[" ".join(str("" if cell is None else cell).split()).replace("|", "\\|") for cell in row] for row in rows]
    rows = [row for row in rows if any(row)]
    if not rows:
        return ""
    width = max(map(len, rows))
    rows = [row + [""] * (width - len(row)) for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + " --- |" * width)
    return "\n".join(lines)


# ---- PDF ------------------------------------------------------------------------------------------------------------


def _pdf(full: pathlib.Path, pages: str) -> str:
    import pdfplumber

    with pdfplumber.open(full) as document:
        numbers = _numbers(pages, len(document.pages))
        read = []
        for done, number in enumerate(numbers, start=1):
            page = document.pages[number - 1]
            read.append(_pdf_page(page))
            page.close()
            progress(done, len(numbers), f"page {number}")
    sizes = collections.Counter()
    for parts in read:
        for kind, value in parts:
            if kind == "line":
                sizes[value[1]] += len(value[0])
    body = sizes.most_common(1)[0][0] if sizes else 0
    # What is clearly larger than most of the text is a heading; the largest is the first level.
    larger = sorted((size for size in sizes if size > body * 1.15), reverse=True)[:4]
    out: list[str] = []
    for parts in read:
        before = None
        for kind, value in parts:
            if kind == "table":
                out += ["", value, ""]
                before = None
                continue
            text, size, top, bottom = value
            bullet = re.match(r"[•◦▪‣●–]\s*(.*)", text)
            if size in larger:
                out += ["", "#" * (larger.index(size) + 1) + " " + text, ""]
                before = None
                continue
            gap = before is not None and top - before > size * 0.9
            if gap:
                out.append("")
            out.append("- " + bullet.group(1) if bullet else text)
            before = bottom
        out.append("")
    return "\n".join(out)


def _pdf_page(page) -> list[tuple]:
    """Lines and tables of a page, from top to bottom."""
    tables = page.find_tables()
    boxes = [table.bbox for table in tables]

    def outside(thing) -> bool:
        middle_x, middle_y = (thing["x0"] + thing["x1"]) / 2, (thing["top"] + thing["bottom"]) / 2
        return not any(left <= middle_x <= right and top <= middle_y <= bottom for left, top, right, bottom in boxes)

    found = []
    for line in page.filter(lambda thing: thing["object_type"] != "char" or outside(thing)).extract_text_lines():
        size = round(sorted(char["size"] for char in line["chars"])[len(line["chars"]) // 2], 1)
        found.append((line["top"], "line", (line["text"].strip(), size, line["top"], line["bottom"])))
    for table in tables:
        found.append((table.bbox[1], "table", _table(table.extract())))
    return [(kind, value) for _, kind, value in sorted(found, key=lambda entry: entry[0])]


# ---- Word -----------------------------------------------------------------------------------------------------------


def _docx(full: pathlib.Path, pages: str) -> str:
    import docx
    from docx.table import Table

    out: list[str] = []
    for block in docx.Document(str(_unpacked(full))).iter_inner_content():
        if isinstance(block, Table):
            out += ["", _table([[cell.text for cell in row.cells] for row in block.rows]), ""]
            continue
        text = _docx_text(block)
        if not text:
            out.append("")
            continue
        style = (block.style.name or "") if block.style is not None else ""
        heading = re.match(r"(?:Heading|Überschrift|Titre) (\d)", style)
        level = _docx_list_level(block)
        if style == "Title":
            out += ["", "# " + text, ""]
        elif heading:
            out += ["", "#" * min(int(heading[1]), 6) + " " + text, ""]
        elif "List Number" in style:
            out.append("  " * level + "1. " + text)
        elif level or "List" in style or _docx_is_list(block):
            out.append("  " * level + "- " + text)
        elif "Quote" in style:
            out += ["", "> " + text, ""]
        else:
            out += [text, ""]
    return "\n".join(out)


def _docx_is_list(paragraph) -> bool:
    properties = paragraph._p.pPr
    return properties is not None and properties.numPr is not None


def _docx_list_level(paragraph) -> int:
    if _docx_is_list(paragraph) and paragraph._p.pPr.numPr.ilvl is not None:
        return paragraph._p.pPr.numPr.ilvl.val
    number = re.search(r"List (?:Bullet|Number) (\d)", paragraph.style.name or "") if paragraph.style is not None else None
    return int(number[1]) - 1 if number else 0


def _docx_text(paragraph) -> str:
    from docx.text.hyperlink import Hyperlink

    out = []
    for item in paragraph.iter_inner_content():
        if isinstance(item, Hyperlink):
            out.append(f"[{item.text}]({item.url})" if item.url else item.text)
        else:
            out.append(_marked(item.text, bool(item.bold), bool(item.italic)))
    # Word splits a phrase into runs; two bold runs in a row are one bold phrase.
    return "".join(out).replace("****", "").strip()


def _marked(text: str, bold: bool, italic: bool) -> str:
    if not text.strip() or not (bold or italic):
        return text
    mark = "**" if bold else "*"
    inner = text.strip()
    start = text.index(inner)
    return text[:start] + mark + inner + mark + text[start + len(inner) :]


# ---- PowerPoint -----------------------------------------------------------------------------------------------------


def _pptx(full: pathlib.Path, pages: str) -> str:
    import pptx

    slides = list(pptx.Presentation(str(_unpacked(full))).slides)
    out: list[str] = []
    for number in _numbers(pages, len(slides)):
        slide = slides[number - 1]
        title = slide.shapes.title
        name = title.text_frame.text.strip() if title is not None and title.has_text_frame else ""
        out += ["", f"## {number}. {name}" if name else f"## Slide {number}", ""]
        for shape in sorted(slide.shapes, key=lambda shape: (shape.top or 0, shape.left or 0)):
            if title is None or shape.shape_id != title.shape_id:
                _pptx_shape(shape, out, 0)
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
            notes = slide.notes_slide.notes_text_frame.text.strip()
            if notes:
                out += ["", "> " + notes.replace("\n", "\n> "), ""]
    return "\n".join(out)


def _pptx_shape(shape, out: list[str], depth: int) -> None:
    if getattr(shape, "has_table", False) and shape.has_table:
        out += ["", _table([[cell.text for cell in row.cells] for row in shape.table.rows]), ""]
    elif hasattr(shape, "shapes") and depth < 10:
        for inner in shape.shapes:
            _pptx_shape(inner, out, depth + 1)
    elif shape.has_text_frame:
        paragraphs = [paragraph for paragraph in shape.text_frame.paragraphs if paragraph.text.strip()]
        lone = len(paragraphs) == 1 and not shape.is_placeholder
        for paragraph in paragraphs:
            text = "".join(_marked(run.text, bool(run.font.bold), bool(run.font.italic)) for run in paragraph.runs)
            text = (text or paragraph.text).replace("\v", " ").strip()
            out.append(text if lone else "  " * paragraph.level + "- " + text)
        out.append("")


# ---- other kinds ----------------------------------------------------------------------------------------------------


def _xlsx(full: pathlib.Path, pages: str) -> str:
    import openpyxl

    out = []
    for sheet in openpyxl.load_workbook(_unpacked(full), data_only=True, read_only=True).worksheets:
        out += [f"## {sheet.title}", "", _table([list(row) for row in sheet.iter_rows(values_only=True)]), ""]
    return "\n".join(out)


def _html_file(full: pathlib.Path, pages: str) -> str:
    from bs4.dammit import UnicodeDammit

    return _html(UnicodeDammit(full.read_bytes(), ["utf-8"]).unicode_markup or "", "")


def _html(text: str, base: str) -> str:
    import urllib.parse

    import bs4
    import markdownify

    page = bs4.BeautifulSoup(text, "html.parser")
    for unwanted in page(["script", "style", "noscript", "template", "nav", "iframe", "svg", "form"]):
        unwanted.decompose()
    for link in page.find_all("a", href=True):
        address = urllib.parse.urljoin(base, str(link["href"]))
        if urllib.parse.urlsplit(address).scheme in ("javascript", "data"):
            link.unwrap()
        else:
            link["href"] = address
    root = page.find("main") or page.find("article") or page.body or page
    title = page.title.get_text().strip() if page.title else ""
    markdown = markdownify.MarkdownConverter(heading_style="ATX", bullets="-", strip=["img"]).convert_soup(root)
    markdown = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", markdown)).strip()
    if title and not re.search(r"^# ", markdown, re.M):
        markdown = f"# {title}\n\n{markdown}"
    return markdown + "\n"


def _csv(full: pathlib.Path, pages: str) -> str:
    text = full.read_text(encoding="utf-8-sig", errors="replace")
    try:
        dialect = csv.Sniffer().sniff(text[:10_000], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    return _table(list(csv.reader(io.StringIO(text), dialect)))


def _text(full: pathlib.Path, pages: str) -> str:
    return full.read_text(encoding="utf-8-sig", errors="replace")


_KINDS = {
    ".pdf": _pdf,
    ".docx": _docx,
    ".pptx": _pptx,
    ".xlsx": _xlsx,
    ".html": _html_file,
    ".htm": _html_file,
    ".csv": _csv,
    ".md": _text,
    ".txt": _text,
}

"""The pack `pdf` on files that the tests draw with reportlab."""

from __future__ import annotations

import io

import PIL.Image
import pypdf
import pytest
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen import canvas


@pytest.fixture
def report(tmp_path):
    page = canvas.Canvas(str(tmp_path / "report.pdf"), pagesize=(300, 200))
    page.setTitle("Year report")
    for number, line in enumerate(["Revenue grew by 12 %", "Costs fell", "Outlook: revenue is stable"], start=1):
        page.bookmarkPage(f"p{number}")
        page.addOutlineEntry(f"Part {number}", f"p{number}")
        page.drawString(30, 150, line)
        if number == 2:
            page.drawImage(ImageReader(PIL.Image.new("RGB", (40, 30), "red")), 30, 50)
        page.showPage()
    page.save()
    return "report.pdf"


@pytest.fixture
def form(tmp_path):
    page = canvas.Canvas(str(tmp_path / "form.pdf"))
    page.drawString(100, 750, "Form")
    page.acroForm.textfield(name="name", x=100, y=700, value="")
    page.acroForm.checkbox(name="agree", x=100, y=600)
    page.acroForm.choice(name="city", x=100, y=500, value="Bern", options=["Bern", "Genf"])
    page.save()
    return "form.pdf"


def test_info(start, report):
    found = start("pdf").info(path=report)
    assert (found["pages"], found["size"], found["form"], found["encrypted"]) == (3, [300.0, 200.0], False, False)
    assert found["metadata"]["Title"] == "Year report"
    assert found["outline"][1] == {"level": 1, "title": "Part 2", "page": 2}


def test_text_and_search(start, report):
    pdf = start("pdf")
    assert pdf.text(path=report, pages="2-")[0] == {"page": 2, "text": "Costs fell"}
    assert [entry["page"] for entry in pdf.text(path=report, pages="3,1")] == [3, 1]
    assert [hit["page"] for hit in pdf.search(path=report, query="revenue")] == [1, 3]
    assert pdf.search(path=report, query=r"\d+ %", regex=True)[0]["match"] == "12 %"


def test_render_gives_a_picture(start, report, tmp_path):
    pdf = start("pdf")
    picture = pdf.render(path=report, page=2, dpi=72)
    loaded = PIL.Image.open(io.BytesIO(picture.data))
    assert loaded.size == (300, 200) and loaded.getpixel((50, 130)) == (255, 0, 0)
    assert pdf.render(path=report, save="out/p.jpg") == "out/p.jpg"
    assert PIL.Image.open(tmp_path / "out/p.jpg").format == "JPEG"


def test_merge_extract_rotate(start, report, tmp_path):
    pdf = start("pdf")
    assert pdf.merge(paths=[report, report], output="all.pdf") == {"path": "all.pdf", "pages": 6}
    assert pdf.extract(path="all.pdf", pages="6,1", output="some.pdf")["pages"] == 2
    texts = [page.extract_text().strip() for page in pypdf.PdfReader(tmp_path / "some.pdf").pages]
    assert texts == ["Outlook: revenue is stable", "Revenue grew by 12 %"]
    pdf.rotate(path=report, angle=90, pages="2", output="turned.pdf")
    assert [page.rotation for page in pypdf.PdfReader(tmp_path / "turned.pdf").pages] == [0, 90, 0]


def test_forms(start, form, failed):
    pdf = start("pdf")
    kinds = {field["name"]: field["kind"] for field in pdf.fields(path=form)}
    assert kinds == {"name": "text", "agree": "button", "city": "choice"}
    pdf.fill(path=form, values={"name": "Zoë", "city": "Genf"}, output="filled.pdf")
    values = {field["name"]: field["value"] for field in pdf.fields(path="filled.pdf")}
    assert (values["name"], values["city"]) == ("Zoë", "Genf")
    failed("LookupError", "name, agree, city", pdf.fill, path=form, values={"nam": "x"}, output="x.pdf")


def test_images_are_saved(start, report, tmp_path):
    (saved,) = start("pdf").images(path=report, folder="pictures")
    assert (saved["page"], saved["width"], saved["height"]) == (2, 40, 30)
    assert (tmp_path / saved["path"]).is_file()


def test_encrypted_files_need_the_secret(start, report, tmp_path, failed):
    writer = pypdf.PdfWriter(clone_from=pypdf.PdfReader(tmp_path / report))
    writer.encrypt("hunter2", algorithm="RC4-128")
    writer.write(tmp_path / "locked.pdf")
    for function in ("info", "text"):
        failed("PermissionError", "PDF_PASSWORD", start("pdf").__getattr__(function), path="locked.pdf")
    pdf = start("pdf", secrets={"PDF_PASSWORD": "hunter2"})
    assert pdf.info(path="locked.pdf")["encrypted"] and pdf.text(path="locked.pdf", pages="2")[0]["text"] == "Costs fell"


def test_mistakes_are_explained(start, report, tmp_path, failed):
    pdf = start("pdf", config={"pdf": {"max_pages": 2}})
    failed("ValueError", "the file has 3 pages", pdf.text, path=report, pages="4")
    failed("ValueError", "not a page number", pdf.text, path=report, pages="one")
    failed("ValueError", "more than 2 pages", pdf.text, path=report)
    failed("ValueError", "lower dpi", start("pdf", config={"pdf": {"max_pixels": 100}}).render, path=report)
    failed("ValueError", "must end in .pdf", pdf.merge, paths=[report], output="all.txt")
    failed("PermissionError", "protected", pdf.merge, paths=[report], output=".git/x.pdf")
    (tmp_path / "no.pdf").write_text("no")
    failed("ValueError", "not a PDF", pdf.text, path="no.pdf")
    failed("ValueError", "not a PDF", pdf.info, path="no.pdf")

"""The pack `convert` on documents that the tests write with the libraries that people use."""

from __future__ import annotations

import zipfile

import docx
import openpyxl
import pptx
from pptx.util import Inches
from reportlab.lib import colors
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle


def test_word(start, tmp_path):
    document = docx.Document()
    document.add_heading("Report", 0)
    document.add_heading("Figures", 1)
    paragraph = document.add_paragraph("Sales grew ")
    paragraph.add_run("a lot").bold = True
    paragraph.add_run(", they say.").italic = True
    document.add_paragraph("first", style="List Bullet")
    document.add_paragraph("inner", style="List Bullet 2")
    document.add_paragraph("one", style="List Number")
    table = document.add_table(rows=2, cols=2)
    for row, values in zip(table.rows, [("city", "people"), ("Bern", "134|000")]):
        for cell, value in zip(row.cells, values):
            cell.text = value
    document.save(tmp_path / "report.docx")
    text = start("convert").to_markdown(path="report.docx")
    assert text == (
        "# Report\n\n# Figures\n\nSales grew **a lot***, they say.*\n\n- first\n  - inner\n1. one\n\n"
        "| city | people |\n| --- | --- |\n| Bern | 134\\|000 |\n"
    )


def test_powerpoint(start, tmp_path):
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Plan"
    frame = slide.placeholders[1].text_frame
    frame.text = "build"
    inner = frame.add_paragraph()
    inner.text, inner.level = "test", 1
    slide.notes_slide.notes_text_frame.text = "Say it slowly"
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    cells = slide.shapes.add_table(1, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table.rows[0].cells
    cells[0].text, cells[1].text = "a", "b"
    deck.save(tmp_path / "plan.pptx")
    convert = start("convert")
    text = convert.to_markdown(path="plan.pptx")
    assert text == "## 1. Plan\n\n- build\n  - test\n\n> Say it slowly\n\n## Slide 2\n\n| a | b |\n| --- | --- |\n"
    assert convert.to_markdown(path="plan.pptx", pages="2").startswith("## Slide 2")


def test_pdf(start, tmp_path, failed):
    styles = getSampleStyleSheet()
    grid = TableStyle([("GRID", (0, 0), (-1, -1), 1, colors.black)])
    story = [
        Paragraph("The Report", styles["Title"]),
        Paragraph("Figures", styles["Heading2"]),
        Paragraph("Sales grew a lot this year, and nobody knows why. " * 3, styles["BodyText"]),
        Spacer(1, 20),
        Table([["city", "people"], ["Bern", "134"]], style=grid),
    ]
    SimpleDocTemplate(str(tmp_path / "report.pdf")).build(story)
    convert = start("convert")
    text = convert.to_markdown(path="report.pdf")
    assert text.startswith("# The Report\n\n## Figures\n\nSales grew a lot")
    assert "| city | people |\n| --- | --- |\n| Bern | 134 |" in text
    assert text.count("Bern") == 1
    failed("ValueError", "the file has 1 pages", convert.to_markdown, path="report.pdf", pages="2")


def test_html(start, tmp_path):
    convert = start("convert")
    page = (
        "<title>T</title><nav>menu</nav><script>x()</script><main><h2>Head</h2><p>Some <b>bold</b> "
        "<a href='/x'>link</a> <a href='javascript:alert(1)'>bad</a></p><ul><li>a<ul><li>b</li></ul></li></ul></main>"
    )
    text = convert.html(text=page, base="https://example.org/dir/")
    assert text == "# T\n\n## Head\n\nSome **bold** [link](https://example.org/x) bad\n\n- a\n  - b\n"
    (tmp_path / "p.html").write_bytes("<meta charset=iso-8859-1><p>Zoë</p>".encode("latin-1"))
    assert convert.to_markdown(path="p.html") == "Zoë\n"


def test_tables(start, tmp_path):
    book = openpyxl.Workbook()
    book.active.title = "S"
    book.active.append(["a", None, 1.5])
    book.save(tmp_path / "b.xlsx")
    (tmp_path / "c.csv").write_text("a;b\n1;x\n")
    convert = start("convert")
    assert convert.to_markdown(path="b.xlsx") == "## S\n\n| a |  | 1.5 |\n| --- | --- | --- |\n"
    assert convert.to_markdown(path="c.csv") == "| a | b |\n| --- | --- |\n| 1 | x |\n"


def test_a_folder_goes_on_after_a_bad_file(start, tmp_path):
    (tmp_path / "in/sub").mkdir(parents=True)
    (tmp_path / "in/a.csv").write_text("a,b\n")
    (tmp_path / "in/sub/b.docx").write_text("broken")
    convert = start("convert")
    results = convert.folder(pattern="in/**/*", into="out")
    assert results[0] == {"path": "in/a.csv", "saved": "out/in__a.csv.md"}
    assert results[1]["path"] == "in/sub/b.docx" and "not a .docx file" in results[1]["error"]
    assert (tmp_path / "out/in__a.csv.md").read_text().startswith("| a | b |")
    assert [step["done"] for step in convert.progress] == [1, 2]


def test_mistakes_are_explained(start, tmp_path, failed):
    convert = start("convert", config={"convert": {"max_chars": 10, "max_unpacked_mb": 1, "max_files": 1}})
    (tmp_path / "old.doc").write_text("x")
    (tmp_path / "a.txt").write_text("x" * 11)
    (tmp_path / "b.txt").write_text("x")
    failed("ValueError", "save it as .docx", convert.to_markdown, path="old.doc")
    failed("ValueError", "more than 10", convert.to_markdown, path="a.txt")
    failed("FileNotFoundError", "no.pdf", convert.to_markdown, path="no.pdf")
    failed("PermissionError", "protected", convert.to_markdown, path="b.txt", save=".git/x.md")
    failed("ValueError", "more than 1", convert.folder, pattern="*.txt", into="out")
    failed("ValueError", "without '..'", convert.folder, pattern="../*.txt", into="out")
    with zipfile.ZipFile(tmp_path / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("word/document.xml", b" " * (2 << 20))
    failed("ValueError", "unpacks to more than 1 MB", convert.to_markdown, path="bomb.docx")

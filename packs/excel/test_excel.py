"""The pack `excel` on workbooks that the tests make with openpyxl."""

from __future__ import annotations

import datetime
import zipfile

import openpyxl
import pytest


@pytest.fixture
def book(tmp_path):
    made = openpyxl.Workbook()
    sheet = made.active
    sheet.title = "Sales"
    for row in [["month", "total", "month", None], ["Jan", 12.5, "x", 1], ["Feb", 7, None, None], ["Sum", "=SUM(B2:B3)", None, None]]:
        sheet.append(row)
    made.create_sheet("Empty")
    made.save(tmp_path / "sales.xlsx")
    return "sales.xlsx"


def test_info_tells_sheets(start, book):
    assert start("excel").info(path=book) == [
        {"name": "Sales", "rows": 4, "columns": 4, "range": "A1:D4", "header": ["month", "total", "month"]},
        {"name": "Empty", "rows": 1, "columns": 1, "range": "A1:A1", "header": []},
    ]


def test_rows_are_dicts_and_no_column_is_lost(start, book):
    excel = start("excel")
    assert excel.read(path=book, limit=1) == [{"month": "Jan", "total": 12.5, "month_2": "x", "D": 1}]
    assert excel.read(path=book, range="A2:B3", header=False) == [["Jan", 12.5], ["Feb", 7]]
    assert excel.read(path=book, range="A:A", header=False, offset=1, limit=1) == [["Jan"]]
    assert excel.read(path=book, sheet="Empty") == []
    assert excel.formulas(path=book) == {"B4": "=SUM(B2:B3)"}
    assert excel.find(path=book, text="JAN") == [{"sheet": "Sales", "cell": "A2", "value": "Jan"}]


def test_writing_keeps_what_is_there(start, book, tmp_path):
    excel = start("excel")
    written = excel.write(path=book, rows=[{"a": 1, "b": datetime.date(2024, 5, 3)}], sheet="Sales", start="F1")
    assert written == {"path": book, "sheet": "Sales", "range": "F1:G2"}
    assert excel.set_cells(path=book, cells={"B5": "=B4*2", "A5": "Twice"}) == 2
    loaded = openpyxl.load_workbook(tmp_path / book)["Sales"]
    assert (loaded["A2"].value, loaded["B4"].value, loaded["B5"].value, loaded["F2"].value) == ("Jan", "=SUM(B2:B3)", "=B4*2", 1)
    assert loaded["G2"].value == datetime.datetime(2024, 5, 3)
    assert excel.add_sheet(path=book, sheet="Notes", rows=[["checked"]]) == ["Sales", "Empty", "Notes"]
    assert [entry.name for entry in tmp_path.iterdir()] == [book]


def test_a_new_workbook_and_a_round_trip(start):
    excel = start("excel")
    rows = [{"n": 1, "t": "Zoë", "x": None}, {"n": 2.5, "t": "b", "x": True}]
    excel.write(path="new/out.xlsx", rows=rows, sheet="Data")
    assert excel.read(path="new/out.xlsx", sheet="Data") == rows
    excel.write(path="new/out.xlsx", rows=[["only"]], sheet="Data", replace=True)
    assert excel.read(path="new/out.xlsx", header=False) == [["only"]]


def test_mistakes_are_explained(start, book, tmp_path, failed):
    excel = start("excel", config={"excel": {"max_unpacked_mb": 1}})
    failed("LookupError", "Sales, Empty", excel.read, path=book, sheet="sales")
    failed("FileNotFoundError", "no.xlsx", excel.read, path="no.xlsx")
    failed("ValueError", "save it as .xlsx", excel.read, path="old.xls")
    failed("ValueError", "not a cell", excel.read, path=book, range="A1:")
    failed("ValueError", "not one cell", excel.set_cells, path=book, cells={"A1:B2": 1})
    failed("TypeError", "all dicts or all lists", excel.write, path=book, rows=[1])
    failed("FileExistsError", "Empty", excel.add_sheet, path=book, sheet="Empty")
    failed("PermissionError", "outside", excel.write, path="../x.xlsx", rows=[])
    failed("PermissionError", "protected", excel.write, path=".onetool/x.xlsx", rows=[])
    (tmp_path / "text.xlsx").write_text("not a zip")
    failed("ValueError", "not an Excel workbook", excel.read, path="text.xlsx")
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("xl/workbook.xml", b" " * (2 << 20))
    failed("ValueError", "unpacks to more than 1 MB", excel.read, path="bomb.xlsx")

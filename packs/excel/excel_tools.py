# /// script
# requires-python = ">=3.10"
# dependencies = ["openpyxl>=3.1"]
# ///
"""Read, search, write and create Excel workbooks (.xlsx, .xlsm)."""

from __future__ import annotations

import os
import pathlib
import tempfile
import zipfile
from typing import Any

import openpyxl
from openpyxl.utils import get_column_letter, range_boundaries
from openpyxl.utils.exceptions import InvalidFileException

from onetool import get_config, resolve_path

pack = "excel"

__all__ = ["info", "read", "find", "write", "set_cells", "add_sheet", "formulas"]

# Each may be changed in onetool.yaml as tools.excel.<name in lower case>.
MAX_ROWS = 10_000
MAX_FILE_MB = 50
MAX_UNPACKED_MB = 500

_FILES = (".xlsx", ".xlsm", ".xltx", ".xltm")


def info(path: str) -> list[dict]:
    """List the sheets of a workbook with their size and first row.

    Args:
        path: The workbook.

    Returns:
        For each sheet: name, rows, columns, range, and header (the values of its first row).

    Example:
        excel.info(path="sales.xlsx")
    """
    book = _open(path)
    found = []
    for sheet in book.worksheets:
        first = next(sheet.iter_rows(min_row=1, max_row=1, values_only=True), ())
        header = [_value(value) for value in first]
        while header and header[-1] is None:
            header.pop()
        found.append(
            {"name": sheet.title, "rows": sheet.max_row, "columns": sheet.max_column, "range": sheet.dimensions, "header": header}
        )
    return found


def read(
    path: str, sheet: str = "", range: str = "", header: bool = True, limit: int = 1000, offset: int = 0
) -> list[dict] | list[list]:
    """Read rows of a sheet. Formulas give the value that Excel last saved for them.

    Args:
        path: The workbook.
        sheet: The sheet's name. Empty: the first one.
        range: A range such as "A1:D20" or "B:D". Empty: everything.
        header: Whether the first row holds the column names. If not, rows are lists.
        limit: The most rows to return.
        offset: How many rows after the header to skip.

    Returns:
        One dict per row with the header's names as keys, or one list per row. Empty rows at the end are left out.

    Example:
        excel.read(path="sales.xlsx", sheet="2024", range="A1:D100")
    """
    limit = max(0, min(limit, _setting("max_rows", MAX_ROWS)))
    rows = _rows(_sheet(_open(path), sheet), range)
    if not header:
        return rows[offset : offset + limit]
    names = _names(rows[0]) if rows else []
    return [dict(zip(names, row)) for row in rows[1:][offset : offset + limit]]


def find(path: str, text: str, sheet: str = "", limit: int = 100) -> list[dict]:
    """Find the cells that contain a text, in upper or lower case.

    Args:
        path: The workbook.
        text: What to look for.
        sheet: The sheet's name. Empty: all of them.
        limit: The most cells to return.

    Returns:
        For each cell: sheet, cell ("B7") and value.

    Example:
        excel.find(path="sales.xlsx", text="total")
    """
    book, found, wanted = _open(path), [], text.casefold()
    for current in [_sheet(book, sheet)] if sheet else book.worksheets:
        for row in current.iter_rows():
            for cell in row:
                if cell.value is not None and wanted in str(cell.value).casefold():
                    found.append({"sheet": current.title, "cell": cell.coordinate, "value": _value(cell.value)})
                    if len(found) >= limit:
                        return found
    return found


def formulas(path: str, sheet: str = "", range: str = "", limit: int = 1000) -> dict[str, str]:
    """List the formulas of a sheet.

    Args:
        path: The workbook.
        sheet: The sheet's name. Empty: the first one.
        range: A range such as "A1:D20". Empty: everything.
        limit: The most formulas to return.

    Returns:
        Each formula by its cell.

    Example:
        excel.formulas(path="sales.xlsx", sheet="2024")
    """
    found: dict[str, str] = {}
    current = _sheet(_open(path, values=False), sheet)
    for row in _cells(current, range):
        for cell in row:
            if cell.data_type == "f" and len(found) < limit:
                found[cell.coordinate] = getattr(cell.value, "text", cell.value)
    return found


def write(path: str, rows: list, sheet: str = "", start: str = "A1", header: bool = True, replace: bool = False) -> dict:
    """Write rows into a sheet. The workbook and the sheet are created where they are missing; all other cells stay.

    Args:
        path: The workbook.
        rows: Dicts (their keys become the header) or lists.
        sheet: The sheet's name. Empty: the first one.
        start: The cell in which the first value goes.
        header: Whether the keys of dicts are written as a first row.
        replace: Whether the sheet's old content is removed first.

    Returns:
        path, sheet and range: where the values are now.

    Example:
        excel.write(path="sales.xlsx", sheet="2025", rows=[{"month": "Jan", "total": 12.5}])
    """
    table = _table(rows, header)
    full = _writable(path)
    book = _load(full, path, values=False) if full.exists() else None
    if book is None:
        book = openpyxl.Workbook()
        book.active.title = sheet or "Sheet1"
    if sheet and sheet not in book.sheetnames:
        book.create_sheet(sheet)
    current = _sheet(book, sheet)
    if replace:
        current.delete_rows(1, current.max_row)
    left, top, _, _ = _bounds(start)
    for down, row in enumerate(table):
        for right, value in enumerate(row):
            current.cell(row=top + down, column=left + right, value=_input(value))
    _save(book, full)
    width, height = max((len(row) for row in table), default=1), max(len(table), 1)
    end = f"{get_column_letter(left + max(width, 1) - 1)}{top + height - 1}"
    return {"path": path, "sheet": current.title, "range": f"{get_column_letter(left)}{top}:{end}"}


def set_cells(path: str, cells: dict, sheet: str = "") -> int:
    """Set single cells; a text that starts with `=` is a formula.

    Args:
        path: The workbook, which must exist.
        cells: Each value by its cell.
        sheet: The sheet's name. Empty: the first one.

    Returns:
        How many cells were set.

    Example:
        excel.set_cells(path="sales.xlsx", cells={"B7": 12.5, "B8": "=SUM(B1:B7)"})
    """
    full = _writable(path)
    book = _load(full, path, values=False)
    current = _sheet(book, sheet)
    for name, value in cells.items():
        left, top, right, bottom = _bounds(name)
        if (left, top) != (right, bottom):
            raise ValueError(f"'{name}' is not one cell, such as B7")
        current.cell(row=top, column=left, value=_input(value))
    _save(book, full)
    return len(cells)


def add_sheet(path: str, sheet: str, rows: list | None = None) -> list[str]:
    """Add a sheet to a workbook that exists.

    Args:
        path: The workbook.
        sheet: The new sheet's name.
        rows: What to write into it: dicts or lists.

    Returns:
        The names of all sheets.

    Example:
        excel.add_sheet(path="sales.xlsx", sheet="Notes", rows=[["checked", "2025-02-01"]])
    """
    table = _table(rows or [], header=True)
    full = _writable(path)
    book = _load(full, path, values=False)
    if sheet in book.sheetnames:
        raise FileExistsError(f"sheet '{sheet}' exists already")
    current = book.create_sheet(sheet)
    for row in table:
        current.append([_input(value) for value in row])
    _save(book, full)
    return book.sheetnames


# ---- files ----------------------------------------------------------------------------------------------------------


def _setting(name: str, default: int) -> int:
    value = get_config("excel", name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"tools.excel.{name} must be a whole number above 0, not {value!r}")
    return value


def _kind(path: str) -> None:
    if not path.lower().endswith(_FILES):
        hint = "save it as .xlsx first" if path.lower().endswith((".xls", ".xlsb", ".ods")) else "use a path that ends in .xlsx"
        raise ValueError(f"{path} is not an Excel workbook of a known kind ({', '.join(_FILES)})\nhint: {hint}")


def _writable(path: str) -> pathlib.Path:
    _kind(path)
    return resolve_path(path, write=True)


def _open(path: str, values: bool = True):
    _kind(path)
    return _load(resolve_path(path), path, values)


def _load(full: pathlib.Path, path: str, values: bool):
    if not full.is_file():
        raise FileNotFoundError(f"{path} does not exist")
    _check_size(full, path)
    try:
        return openpyxl.load_workbook(full, data_only=values, keep_vba=path.lower().endswith((".xlsm", ".xltm")))
    except (InvalidFileException, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a workbook that can be read: {error}") from None


def _check_size(full: pathlib.Path, path: str) -> None:
    """A small file can unpack to more memory than there is: its directory tells how much it holds."""
    most, unpacked = _setting("max_file_mb", MAX_FILE_MB), _setting("max_unpacked_mb", MAX_UNPACKED_MB)
    if full.stat().st_size > most << 20:
        raise ValueError(f"{path} is larger than {most} MB\nhint: tools.excel.max_file_mb allows more")
    try:
        with zipfile.ZipFile(full) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile:
        raise ValueError(f"{path} is not an Excel workbook") from None
    if size > unpacked << 20:
        raise ValueError(f"{path} unpacks to more than {unpacked} MB\nhint: tools.excel.max_unpacked_mb allows more")


def _save(book, full: pathlib.Path) -> None:
    """The old file or the new one, never half of one."""
    full.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(suffix=full.suffix, dir=full.parent)
    os.close(handle)
    try:
        book.save(temporary)
        os.chmod(temporary, full.stat().st_mode & 0o777 if full.exists() else 0o644)
        os.replace(temporary, full)
    except BaseException:
        os.unlink(temporary)
        raise


# ---- cells ----------------------------------------------------------------------------------------------------------


def _sheet(book, name: str):
    if not name:
        return book.worksheets[0]
    if name not in book.sheetnames:
        raise LookupError(f"sheet '{name}' does not exist\nhint: the sheets are: {', '.join(book.sheetnames)}")
    return book[name]


def _bounds(text: str) -> tuple:
    try:
        return range_boundaries(text.replace("$", ""))
    except (ValueError, TypeError):
        raise ValueError(f"'{text}' is not a cell or a range, such as B7 or A1:D20") from None


def _cells(sheet, range: str):
    if not range:
        return sheet.iter_rows()
    left, top, right, bottom = _bounds(range)
    bottom = min(bottom or sheet.max_row, sheet.max_row)
    return sheet.iter_rows(min_row=top or 1, max_row=bottom, min_col=left, max_col=right or sheet.max_column)


def _rows(sheet, range: str) -> list[list]:
    rows = [[_value(cell.value) for cell in row] for row in _cells(sheet, range)]
    while rows and all(value is None for value in rows[-1]):
        rows.pop()
    return rows


def _names(header: list) -> list[str]:
    """A name for every column: its letter where the header is empty, a number where a name comes twice."""
    names: list[str] = []
    for position, value in enumerate(header, start=1):
        base = str(value).strip() if value is not None else get_column_letter(position)
        name, count = base, 2
        while name in names:
            name, count = f"{base}_{count}", count + 1
        names.append(name)
    return names


def _value(value: Any) -> Any:
    return value if value is None or isinstance(value, (str, int, float, bool)) or hasattr(value, "isoformat") else str(value)


def _input(value: Any) -> Any:
    return value if not isinstance(value, (list, dict, tuple, set)) else str(value)


def _table(rows: list, header: bool) -> list[list]:
    if rows and all(isinstance(row, dict) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        return ([names] if header else []) + [[row.get(name) for name in names] for row in rows]
    if not all(isinstance(row, (list, tuple)) for row in rows):
        raise TypeError("rows must be all dicts or all lists")
    return [list(row) for row in rows]

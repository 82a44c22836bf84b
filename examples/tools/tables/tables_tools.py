"""Tables in CSV files or text: describe, filter and summarise them. Has no dependencies."""

from __future__ import annotations

import csv
import io
import pathlib
from typing import Literal

from onetool import get_config

pack = "tables"

__all__ = ["describe", "rows", "summarise"]


def describe(source: str) -> dict:
    """Describe the contents of a table.

    Args:
        source: The path of a CSV file, or CSV text with a header line.

    Returns:
        The columns with their type (number or text) and the number of rows.

    Example:
        tables.describe(source="prices.csv")
    """
    table = _read(source)
    columns = {}
    for name in table[0] if table else []:
        columns[name] = "number" if all(_is_number(row[name]) for row in table) else "text"
    return {"columns": columns, "rows": len(table)}


def rows(source: str, where: dict[str, str] | None = None, columns: list[str] | None = None, limit: int = 50) -> list[dict]:
    """Return the rows whose columns have the given values.

    Args:
        source: The path of a CSV file, or CSV text with a header line.
        where: The value that each named column must have.
        columns: The columns to return; all of them by default.
        limit: The maximum number of rows to return.

    Returns:
        One dict per row, with numbers as numbers.

    Example:
        tables.rows(source="city,people\\nBern,134000\\nGenf,203000", where={"city": "Bern"})
    """
    limit = min(limit, int(get_config("tables", "max_rows", 10_000)))
    found = []
    for row in _read(source):
        if all(row.get(name) == str(value) for name, value in (where or {}).items()):
            found.append({name: _value(row[name]) for name in columns or row})
            if len(found) >= limit:
                break
    return found


def summarise(source: str, by: str, column: str, how: Literal["sum", "mean", "min", "max", "count"] = "sum") -> dict:
    """Summarise one column, grouped by the values of another.

    Args:
        source: The path of a CSV file, or CSV text with a header line.
        by: The column whose values form the groups.
        column: The column of numbers.
        how: What to compute for each group.

    Returns:
        The result for each group.

    Example:
        tables.summarise(source="sales.csv", by="region", column="amount")
    """
    groups: dict[str, list[float]] = {}
    for row in _read(source):
        if how == "count" or _is_number(row[column]):
            groups.setdefault(row[by], []).append(_value(row[column]) if how != "count" else 1)
    compute = {"sum": sum, "count": len, "min": min, "max": max, "mean": lambda items: sum(items) / len(items)}[how]
    return {name: compute(items) for name, items in groups.items()}


def _read(source: str) -> list[dict[str, str]]:
    text = source if "\n" in source else pathlib.Path(source).read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def _is_number(text: str | None) -> bool:
    try:
        float(text or "")
    except ValueError:
        return False
    return True


def _value(text: str | None):
    if not _is_number(text):
        return text
    number = float(text)
    return int(number) if number.is_integer() and "." not in text else number

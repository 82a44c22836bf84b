# /// script
# requires-python = ">=3.10"
# dependencies = ["matplotlib>=3.8"]
#
# [tool.onetool]
# threads = 1
# ///
"""Charts as pictures: lines, bars, points, distributions, shares and heat maps."""

from __future__ import annotations

import datetime
import io
import os
import tempfile
from typing import Any, Literal

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from onetool import Image, get_config, resolve_path  # noqa: E402

pack = "plot"

__all__ = ["line", "bar", "scatter", "histogram", "pie", "box", "heatmap"]

# May be changed in onetool.yaml as tools.plot.max_points.
MAX_POINTS = 200_000

_FORMATS = {".png": "png", ".svg": "svg", ".pdf": "pdf", ".jpg": "jpg"}


def line(
    data: list | dict,
    x: str = "",
    y: str | list[str] = "",
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    log: bool = False,
    fill: bool = False,
    save: str = "",
) -> Image | str:
    """Draw lines: one for each column of `y`.

    Args:
        data: Rows as dicts, columns as a dict of lists, or a list of numbers.
        x: The column along the horizontal axis; dates as text are understood. Empty: the row's position.
        y: The column, or columns, to draw. Empty: every column of numbers.
        title: Above the chart.
        x_label: Below the horizontal axis. Empty: the column's name.
        y_label: Beside the vertical axis.
        log: Whether the vertical axis is logarithmic.
        fill: Whether the area below the lines is filled.
        save: A path that ends in .png, .svg, .pdf or .jpg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        plot.line(data=[{"month": "2024-01", "sales": 3}, {"month": "2024-02", "sales": 5}], x="month", y="sales")
    """
    table = _table(data)
    labels, names = _axis(table, x), _wanted(table, y, x)
    with _Chart(title, x_label or x, y_label or (names[0] if len(names) == 1 else ""), save) as chart:
        for name in names:
            values = _numbers(table, name)
            chart.axes.plot(labels, values, label=name, marker="o" if len(values) <= 30 else None)
            if fill:
                chart.axes.fill_between(labels, values, alpha=0.2)
        if log:
            chart.axes.set_yscale("log")
        chart.legend(names)
    return chart.result


def bar(
    data: list | dict,
    x: str = "",
    y: str | list[str] = "",
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    stacked: bool = False,
    horizontal: bool = False,
    save: str = "",
) -> Image | str:
    """Draw bars: one group for each row, one bar in it for each column of `y`.

    Args:
        data: Rows as dicts, columns as a dict of lists, a dict of numbers, or a list of numbers.
        x: The column with the names of the groups. Empty: the row's position.
        y: The column, or columns, to draw. Empty: every column of numbers.
        title: Above the chart.
        x_label: Beside the axis with the names. Empty: the column's name.
        y_label: Beside the axis with the values.
        stacked: Whether the bars of a group stand on top of each other.
        horizontal: Whether the bars lie; better for long names.
        save: A path that ends in .png, .svg, .pdf or .jpg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        plot.bar(data={"Bern": 134, "Genf": 203}, title="People, in thousands")
    """
    if isinstance(data, dict) and data and not any(isinstance(value, (list, tuple)) for value in data.values()):
        data, x, y = {"name": list(data), "value": list(data.values())}, x or "name", y or "value"
    table = _table(data)
    labels, names = [str(label) for label in _axis(table, x, dates=False)], _wanted(table, y, x)
    with _Chart(title, x_label or (x if x != "name" else ""), y_label, save) as chart:
        places, width = list(range(len(labels))), 0.8 if stacked else 0.8 / max(len(names), 1)
        base = [0.0] * len(labels)
        draw = chart.axes.barh if horizontal else chart.axes.bar
        for position, name in enumerate(names):
            values = _numbers(table, name)
            if stacked:
                draw(places, values, width, **{"left" if horizontal else "bottom": base}, label=name)
                base = [below + value for below, value in zip(base, values)]
            else:
                offset = (position - (len(names) - 1) / 2) * width
                draw([place + offset for place in places], values, width, label=name)
        if horizontal:
            chart.axes.set_yticks(places, labels)
            chart.axes.invert_yaxis()
            chart.swap_labels()
        else:
            turned = sum(map(len, labels)) > 60
            chart.axes.set_xticks(places, labels, rotation=45 if turned else 0, ha="right" if turned else "center")
        chart.legend(names)
    return chart.result


def scatter(
    data: list | dict,
    x: str,
    y: str,
    color: str = "",
    size: str = "",
    label: str = "",
    trend: bool = False,
    title: str = "",
    save: str = "",
) -> Image | str:
    """Draw one point for each row.

    Args:
        data: Rows as dicts, or columns as a dict of lists.
        x: The column along the horizontal axis.
        y: The column along the vertical axis.
        color: A column that colours the points: a scale for numbers, a colour for each text.
        size: A column of numbers for the size of the points.
        label: A column whose text stands beside each point.
        trend: Whether a straight line is fitted and drawn.
        title: Above the chart.
        save: A path that ends in .png, .svg, .pdf or .jpg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        plot.scatter(data=[{"area": 51.6, "people": 134}, {"area": 15.9, "people": 203}], x="area", y="people")
    """
    table = _table(data)
    across, up = _numbers(table, x), _numbers(table, y)
    sizes: Any = 30
    if size:
        values = _numbers(table, size)
        most = max((abs(value) for value in values), default=0) or 1
        sizes = [10 + 290 * abs(value) / most for value in values]
    with _Chart(title, x, y, save) as chart:
        if color and all(_is_number(value) for value in _column(table, color)):
            points = chart.axes.scatter(across, up, s=sizes, c=_numbers(table, color), alpha=0.8)
            chart.figure.colorbar(points, ax=chart.axes, label=color)
        elif color:
            groups = [str(value) for value in _column(table, color)]
            for group in dict.fromkeys(groups):
                chosen = [i for i, name in enumerate(groups) if name == group]
                some = [sizes[i] for i in chosen] if size else sizes
                chart.axes.scatter([across[i] for i in chosen], [up[i] for i in chosen], s=some, label=group, alpha=0.8)
            chart.axes.legend(title=color)
        else:
            chart.axes.scatter(across, up, s=sizes, alpha=0.8)
        for text, left, top in zip(_column(table, label) if label else [], across, up):
            chart.axes.annotate(str(text), (left, top), xytext=(4, 4), textcoords="offset points", fontsize=8)
        if trend and len(set(across)) > 1:
            slope, base = _fit(across, up)
            ends = [min(across), max(across)]
            chart.axes.plot(ends, [slope * end + base for end in ends], "--", color="grey", label=f"{slope:.3g} x + {base:.3g}")
            chart.axes.legend()
    return chart.result


def histogram(values: list, bins: int = 20, title: str = "", x_label: str = "", save: str = "") -> Image | str:
    """Draw how often values occur.

    Args:
        values: Numbers.
        bins: How many bars, 1 to 500.
        title: Above the chart.
        x_label: Below the chart.
        save: A path that ends in .png, .svg, .pdf or .jpg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        plot.histogram(values=[1, 2, 2, 3, 3, 3, 4], bins=4)
    """
    numbers = _numbers(_table({"values": values}), "values")
    with _Chart(title, x_label, "count", save) as chart:
        chart.axes.hist(numbers, bins=max(1, min(bins, 500)), edgecolor="white")
    return chart.result


def pie(data: dict, title: str = "", donut: bool = False, save: str = "") -> Image | str:
    """Draw the shares of a whole.

    Args:
        data: Each number by its name.
        title: Above the chart.
        donut: Whether the middle is left free.
        save: A path that ends in .png, .svg, .pdf or .jpg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        plot.pie(data={"rent": 1200, "food": 600, "other": 300})
    """
    numbers = _numbers(_table({"share": list(data.values())}), "share")
    if not numbers or min(numbers) < 0 or sum(numbers) == 0:
        raise ValueError("shares must be numbers of at least 0, and not all 0")
    with _Chart(title, "", "", save) as chart:
        hole = {"width": 0.4} if donut else None
        chart.axes.pie(numbers, labels=[str(name) for name in data], autopct="%1.0f%%", wedgeprops=hole)
        chart.axes.grid(False)
    return chart.result


def box(data: dict, title: str = "", y_label: str = "", save: str = "") -> Image | str:
    """Draw the spread of several groups of numbers: median, quartiles and outliers.

    Args:
        data: Lists of numbers by the group's name.
        title: Above the chart.
        y_label: Beside the vertical axis.
        save: A path that ends in .png, .svg, .pdf or .jpg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        plot.box(data={"before": [12, 14, 15, 30], "after": [8, 9, 9, 12]}, y_label="ms")
    """
    groups = [_numbers(_table({str(name): values}), str(name)) for name, values in data.items()]
    with _Chart(title, "", y_label, save) as chart:
        chart.axes.boxplot(groups)
        chart.axes.set_xticks(range(1, len(groups) + 1), [str(name) for name in data])
    return chart.result


def heatmap(
    data: list[list],
    rows: list[str] | None = None,
    columns: list[str] | None = None,
    title: str = "",
    numbers: bool = True,
    color: Literal["viridis", "blues", "reds", "coolwarm"] = "viridis",
    save: str = "",
) -> Image | str:
    """Draw a table of numbers as colours.

    Args:
        data: Rows of numbers, all of one length.
        rows: The names of the rows.
        columns: The names of the columns.
        title: Above the chart.
        numbers: Whether the values stand in the cells; only up to 400 cells.
        color: The scale of colours.
        save: A path that ends in .png, .svg, .pdf or .jpg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        plot.heatmap(data=[[1, 2], [3, 4]], rows=["a", "b"], columns=["x", "y"])
    """
    table = [_numbers(_table({"row": list(row)}), "row") for row in data]
    if not table or len({len(row) for row in table}) != 1:
        raise ValueError("data must be rows of numbers, all of one length")
    with _Chart(title, "", "", save) as chart:
        names = {"blues": "Blues", "reds": "Reds"}
        picture = chart.axes.imshow(table, cmap=names.get(color, color), aspect="auto")
        chart.figure.colorbar(picture, ax=chart.axes)
        if columns:
            chart.axes.set_xticks(range(len(columns)), columns, rotation=45 if len(columns) > 8 else 0)
        if rows:
            chart.axes.set_yticks(range(len(rows)), rows)
        if numbers and len(table) * len(table[0]) <= 400:
            middle = (picture.norm.vmin + picture.norm.vmax) / 2
            for down, row in enumerate(table):
                for right, value in enumerate(row):
                    ink = "white" if (value < middle) == (color == "viridis") else "black"
                    chart.axes.text(right, down, f"{value:g}", ha="center", va="center", color=ink, fontsize=8)
        chart.axes.grid(False)
    return chart.result


# ---- data -----------------------------------------------------------------------------------------------------------


def _table(data: Any) -> dict[str, list]:
    """Columns by name, from rows, columns or plain numbers."""
    if isinstance(data, dict):
        table = {str(name): list(values) for name, values in data.items() if isinstance(values, (list, tuple))}
    elif isinstance(data, (list, tuple)) and data and all(isinstance(row, dict) for row in data):
        names = dict.fromkeys(name for row in data for name in row)
        table = {str(name): [row.get(name) for row in data] for name in names}
    elif isinstance(data, (list, tuple)) and all(_is_number(value) or value is None for value in data):
        table = {"value": list(data)}
    else:
        table = {}
    if not table or not any(table.values()):
        raise ValueError("there is nothing to draw: data must be rows as dicts, a dict of lists, or a list of numbers")
    if len({len(values) for values in table.values()}) != 1:
        lengths = ", ".join(f"{name}: {len(values)}" for name, values in table.items())
        raise ValueError(f"the columns have different lengths ({lengths})")
    most = get_config("plot", "max_points", MAX_POINTS)
    if sum(map(len, table.values())) > most:
        raise ValueError(f"more than {most} values\nhint: add them up first, or set tools.plot.max_points")
    return table


def _column(table: dict[str, list], name: str) -> list:
    if name not in table:
        raise LookupError(f"column '{name}' does not exist\nhint: the columns are: {', '.join(table)}")
    return table[name]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _numbers(table: dict[str, list], name: str) -> list[float]:
    values = []
    for position, value in enumerate(_column(table, name)):
        try:
            values.append(float("nan") if value is None else float(value))
        except (TypeError, ValueError):
            raise ValueError(f"column '{name}' holds {value!r} at position {position}, which is not a number") from None
    return values


def _wanted(table: dict[str, list], y: str | list[str], x: str) -> list[str]:
    if y:
        return [y] if isinstance(y, str) else list(y)
    names = [name for name, values in table.items() if name != x and all(_is_number(v) or v is None for v in values)]
    if not names:
        raise LookupError(f"no column holds numbers only\nhint: name one with y; the columns are: {', '.join(table)}")
    return names


def _axis(table: dict[str, list], x: str, dates: bool = True) -> list:
    if not x:
        return list(range(len(next(iter(table.values())))))
    values = _column(table, x)
    if dates and values and all(isinstance(value, str) and len(value) >= 10 for value in values):
        try:
            return [datetime.datetime.fromisoformat(value) for value in values]
        except ValueError:
            pass
    return values


def _fit(across: list[float], up: list[float]) -> tuple[float, float]:
    count, mean_x, mean_y = len(across), sum(across) / len(across), sum(up) / len(up)
    spread = sum((value - mean_x) ** 2 for value in across)
    slope = sum((across[i] - mean_x) * (up[i] - mean_y) for i in range(count)) / spread
    return slope, mean_y - slope * mean_x


# ---- pictures -------------------------------------------------------------------------------------------------------


class _Chart:
    """One figure, closed whatever happens; `result` is the picture or the path."""

    def __init__(self, title: str, x_label: str, y_label: str, save: str):
        suffix = os.path.splitext(save)[1].lower()
        if save and suffix not in _FORMATS:
            raise ValueError(f"{save} must end in {', '.join(_FORMATS)}")
        self._format, self._save = _FORMATS.get(suffix, "png"), save
        self._target = resolve_path(save, write=True) if save else None
        self.result: Image | str = save
        self.figure, self.axes = plt.subplots(figsize=(8, 4.8), dpi=120, layout="constrained")
        self.axes.grid(True, alpha=0.25)
        self.axes.spines[["top", "right"]].set_visible(False)
        self.axes.set_title(title)
        self.axes.set_xlabel(x_label)
        self.axes.set_ylabel(y_label)

    def legend(self, names: list[str]) -> None:
        if len(names) > 1:
            self.axes.legend()

    def swap_labels(self) -> None:
        across, up = self.axes.get_xlabel(), self.axes.get_ylabel()
        self.axes.set_xlabel(up)
        self.axes.set_ylabel(across)

    def __enter__(self) -> _Chart:
        return self

    def __exit__(self, kind, *_) -> None:
        try:
            if kind is None:
                target = io.BytesIO()
                self.figure.savefig(target, format=self._format)
                self._keep(target.getvalue())
        finally:
            plt.close(self.figure)

    def _keep(self, data: bytes) -> None:
        if self._target is None:
            self.result = Image(data, "image/png")
            return
        self._target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, self._target)

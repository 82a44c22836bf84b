"""The pack `plot`: every chart is a picture in which something was drawn."""

from __future__ import annotations

import io

import PIL.Image
import pytest

ROWS = [{"day": f"2024-01-{day:02}", "a": day, "b": day * day, "kind": "xy"[day % 2]} for day in range(1, 11)]


def colours(picture) -> int:
    image = PIL.Image.open(io.BytesIO(picture.data)).convert("RGB")
    assert image.size == (960, 576)
    return len(image.getcolors(1 << 20))


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("line", {"data": ROWS, "x": "day", "y": ["a", "b"], "title": "Days", "fill": True}),
        ("line", {"data": [3, None, 5], "log": True}),
        ("bar", {"data": {"Bern": 134, "Genf": 203}, "horizontal": True}),
        ("bar", {"data": ROWS, "x": "day", "stacked": True}),
        ("scatter", {"data": ROWS, "x": "a", "y": "b", "color": "kind", "size": "a", "label": "kind", "trend": True}),
        ("scatter", {"data": {"p": [1, 2], "q": [3, 4]}, "x": "p", "y": "q", "color": "q"}),
        ("histogram", {"values": [1, 2, 2, 3.5], "bins": 4}),
        ("pie", {"data": {"rent": 2, "food": 1}, "donut": True}),
        ("box", {"data": {"a": [1, 2, 9], "b": [4, 5, 6]}}),
        ("heatmap", {"data": [[1, 2], [3, 4]], "rows": ["a", "b"], "columns": ["x", "y"], "color": "blues"}),
    ],
)
def test_a_chart_is_drawn(start, kind, arguments):
    picture = start("plot").call(kind, **arguments)
    assert picture.media_type == "image/png" and colours(picture) > 20


def test_charts_are_saved(start, tmp_path):
    plot = start("plot")
    for suffix, magic in [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("jpg", b"\xff\xd8")]:
        assert plot.line(data=[1, 2], save=f"charts/c.{suffix}") == f"charts/c.{suffix}"
        assert (tmp_path / f"charts/c.{suffix}").read_bytes().startswith(magic)
    assert sorted(path.name for path in (tmp_path / "charts").iterdir()) == ["c.jpg", "c.pdf", "c.png", "c.svg"]


def test_mistakes_are_explained(start, failed):
    plot = start("plot", config={"plot": {"max_points": 5}})
    failed("LookupError", "the columns are: a", plot.line, data={"a": [1]}, y="b")
    failed("LookupError", "no column holds numbers", plot.line, data={"a": ["x"]})
    failed("ValueError", "not a number", plot.line, data={"a": ["x"]}, y="a")
    failed("ValueError", "different lengths", plot.line, data={"a": [1], "b": [1, 2]})
    failed("ValueError", "nothing to draw", plot.line, data=[])
    failed("ValueError", "more than 5 values", plot.line, data=[1] * 6)
    failed("ValueError", "one length", plot.heatmap, data=[[1], [1, 2]])
    failed("ValueError", "must end in", plot.line, data=[1], save="chart.txt")
    failed("PermissionError", "outside", plot.line, data=[1], save="../chart.png")
    failed("ValueError", "at least 0", plot.pie, data={"a": -1})

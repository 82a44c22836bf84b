"""The REST API."""

from collections.abc import Iterator
from report import Row


def rows(settings) -> Iterator[Row]:
    yield Row("skipped", "", note="this binary has no `serve --http`")

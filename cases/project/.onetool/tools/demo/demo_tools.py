"""What cases need beside searching."""

import datetime

pack = "demo"

__all__ = ["text", "listing", "nothing", "fail", "big", "odd", "placed", "count"]


def text() -> str:
    """Plain text."""
    return 'plain "text"'


def listing() -> list:
    """A list of dicts."""
    return [{"a": 1}, {"b": [1, 2]}]


def nothing() -> None:
    """Returns None."""
    return None


def fail(message: str = "no") -> None:
    """Raises ValueError."""
    raise ValueError(message)


def big(size: int) -> str:
    """Text of that many characters."""
    return "x" * size


def odd() -> dict:
    """Values that JSON lacks."""
    return {"when": datetime.date(2024, 2, 29), "raw": b"abc", "pair": (1, 2), 3: None}


def placed(a, /, b, *rest, c=3) -> list:
    """Shows which argument came from where."""
    return [a, b, list(rest), c]


_calls = 0


def count() -> int:
    """How often this was called."""
    global _calls
    _calls += 1
    return _calls

"""Tools to try things with."""

pack = "demo"


def foo(text: str = "foo") -> str:
    """Say foo.

    Args:
        text: What to say
    """
    return f"foo {text}"


def bar(text: str = "bar") -> str:
    """Say bar.

    Args:
        text: What to say
    """
    return f"bar {text}"


def lines(count: int, every: int = 0) -> str:
    """Many lines; with `every`, each of those is an error.

    Args:
        count: How many
        every: Which of them tell of an error
    """
    return "\n".join(f"error {i}" if every and i % every == 0 else f"line {i}" for i in range(1, count + 1))


def fail() -> str:
    """Fail."""
    raise ValueError("as asked for")

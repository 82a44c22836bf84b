"""Another pack with a function of the same name."""

pack = "context7"


def search(query: str) -> str:
    """Search documentation."""
    return f"context7:{query}"

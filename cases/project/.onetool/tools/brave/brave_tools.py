"""A pack that answers without a network."""

pack = "brave"

__all__ = ["web_search", "search", "prefixes", "two"]


def web_search(query: str, count: int = 10) -> dict:
    """Search the web.

    Args:
        query: What to look for
        count: How many results
    """
    return {"pack": "brave", "query": query, "count": count}


def search(query: str) -> str:
    """Search, the short way."""
    return f"brave:{query}"


def prefixes(query_info: str = "", query: str = "", quality: str = "") -> dict:
    """Shows which parameter took which value."""
    return {"query_info": query_info, "query": query, "quality": quality}


def two(query: str, count: int = 1) -> list:
    """Returns its arguments."""
    return [query, count]

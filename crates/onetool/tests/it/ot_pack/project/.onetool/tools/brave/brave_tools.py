"""Web search, answered from memory."""

pack = "brave"


def search(query: str, count: int = 10) -> list[dict]:
    """Search the web.

    The order is that of relevance.

    Args:
        query: What to look for
        count: How many pages at most

    Returns:
        One dict a page, with title and url

    Example:
        brave.search(query="rust", count=3)
    """
    return [{"title": f"{query} {i}", "url": f"https://example.org/{i}"} for i in range(1, count + 1)]


def web_search(query: str) -> str:
    """Search pages, and give their text.

    Args:
        query: What to look for
    """
    return f"pages about {query}"

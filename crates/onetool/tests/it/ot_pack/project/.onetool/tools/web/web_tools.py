"""Pages of the web."""

pack = "web"


def fetch(url: str) -> str:
    """Fetch a page as text.

    Args:
        url: Address of the page
    """
    return f"the text of {url}"

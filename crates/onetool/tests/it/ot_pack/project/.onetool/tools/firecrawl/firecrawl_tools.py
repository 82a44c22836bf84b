"""Crawls sites."""

pack = "firecrawl"


def scrape(site: str) -> str:
    """Scrape one site.

    Args:
        site: Its address
    """
    return f"scraped {site}"


def crawl(site: str, depth: int = 1) -> list[str]:
    """Follow the links of a site.

    Args:
        site: Its address
        depth: How far
    """
    return [f"{site}/{i}" for i in range(depth)]

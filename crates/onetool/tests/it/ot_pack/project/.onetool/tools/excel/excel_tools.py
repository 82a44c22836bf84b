"""Workbooks."""

pack = "excel"


def scaffold(path: str) -> str:
    """Make an empty workbook.

    Args:
        path: Where it goes
    """
    return path

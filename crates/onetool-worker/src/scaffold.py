# /// script
# requires-python = ">=3.10"
# dependencies = [
#     # Packages from PyPI that this file imports, for example:
#     # "httpx>=0.27",
# ]
#
# [tool.onetool]
# # The secrets that this file may ask for with get_secret().
# secrets = []
# ///
"""What this pack is for, in one line. It stands beside the pack's name in ot.packs()."""

from __future__ import annotations

# What OneTool offers to tools: get_secret, get_config, resolve_path, call_tool, call_tool_async, log, progress,
# trace_headers, Image.
from onetool import get_config, progress

# The pack's name: tools are called as PACK_NAME.greet(...).
pack = "PACK_NAME"

# The functions that are tools. Without this list, every function whose name has no leading underscore is one.
__all__ = ["greet", "count_words"]


def greet(name: str, greeting: str = "Hello") -> str:
    """Greet someone.

    The types, the defaults and this text are what a model sees before it calls the tool.

    Args:
        name: Who is greeted.
        greeting: The word to greet with.

    Returns:
        The greeting as one line of text.

    Example:
        PACK_NAME.greet(name="Ada")
    """
    mark = get_config("PACK_NAME", "mark", "!")
    return f"{greeting}, {name}{mark}"


async def count_words(texts: list[str]) -> dict[str, int]:
    """Count the words of several texts. Plain functions run on threads, those with `async def` on one event loop.

    Args:
        texts: The texts to count in.

    Returns:
        Each text with the number of its words. Dicts, lists, dates, bytes, dataclasses all arrive as they are.

    Example:
        PACK_NAME.count_words(texts=["one two", "three"])
    """
    counts: dict[str, int] = {}
    for done, text in enumerate(texts, start=1):
        counts[text] = len(text.split())
        progress(done, len(texts), "counting")
    return counts

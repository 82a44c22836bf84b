# /// script
# requires-python = ">=3.10"
# dependencies = []
# [tool.onetool]
# secrets = ["NOTES_AUTHOR"]
# ///
"""Notes in a folder, one file each."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from onetool import get_config, get_secret, log

pack = "notes"
__all__ = ["add", "find"]


@dataclass
class Note:
    title: str
    text: str
    tags: list[str] = field(default_factory=list)


def _folder() -> Path:
    folder = Path(get_config("notes", "folder", "notes"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def add(note: Note) -> str:
    """Save a note.

    Args:
        note: Title, text and tags.

    Returns:
        The name of the file.

    Example:
        notes.add(note={"title": "Rust talk", "text": "Ask about lifetimes."})
    """
    name = "".join(letter if letter.isalnum() else "-" for letter in note.title.lower()) + ".md"
    author = get_secret("NOTES_AUTHOR", "somebody")
    with log("keeping a note", name=name):
        text = f"# {note.title}\n\n{note.text}\n\n{' '.join('#' + tag for tag in note.tags)} by {author}\n"
        (_folder() / name).write_text(text)
    return name


def find(words: str) -> list[dict]:
    """Find notes that contain some words.

    Args:
        words: The words to search for; a note must contain all of them.

    Returns:
        One dict per note, with name and first_line.

    Example:
        notes.find(words="rust lifetimes")
    """
    wanted = words.lower().split()
    found = []
    for file in sorted(_folder().glob("*.md")):
        text = file.read_text()
        if all(word in text.lower() for word in wanted):
            found.append({"name": file.name, "first_line": text.splitlines()[0]})
    return found

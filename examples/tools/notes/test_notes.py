"""Runs with plain pytest: `pip install ./python pytest && pytest examples/tools/notes`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import notes_tools


def test_a_note_is_found_again(onetool_host, tmp_path):
    onetool_host.config["notes", "folder"] = str(tmp_path)
    onetool_host.secrets["NOTES_AUTHOR"] = "Ada"
    name = notes_tools.add(notes_tools.Note("Rust talk", "Ask about lifetimes.", ["rust"]))
    assert "by Ada" in (tmp_path / name).read_text()
    assert notes_tools.find("lifetimes rust") == [{"name": "rust-talk.md", "first_line": "# Rust talk"}]
    assert onetool_host.logged[0].fields == {"name": name}

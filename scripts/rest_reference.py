#!/usr/bin/env python3
"""Writes docs/rest.md from the API's own description.

    scripts/rest_reference.py [--binary target/debug/onetool] [--check]

`--check` writes nothing, and fails where the file is not what the description gives.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE = ROOT / "docs/rest.md"
METHODS = ("get", "post", "put", "patch", "delete")
HEAD = """# REST

`onetool serve --http` answers these requests. `/openapi.json` describes them in full, with every schema; `/docs` is a page to
try them. Where `server.tokens` is set, a request needs `Authorization: Bearer <token>` with the scope that is named. Every failure
is answered with `{"ok": false, "error": {"code", "message", "hint"}}`.

This page is written by `scripts/rest_reference.py`.
"""


def description(binary: pathlib.Path) -> dict:
    """The document that a server gives."""
    with tempfile.TemporaryDirectory() as folder:
        project = pathlib.Path(folder, "project")
        project.mkdir()
        environment = {**os.environ, "HOME": folder, "NO_COLOR": "1"}
        server = subprocess.Popen([binary, "serve", "--http", "127.0.0.1:0"], cwd=project, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            for line in server.stderr:
                if found := re.search(r"listening at (http://\S+)", line):
                    with urllib.request.urlopen(found[1] + "/openapi.json", timeout=30) as reply:
                        return json.load(reply)
            raise SystemExit("the server did not start")
        finally:
            server.terminate()
            server.wait()


def type_of(schema: dict) -> str:
    if reference := schema.get("$ref"):
        return f"`{reference.rsplit('/', 1)[1]}`"
    kinds = schema.get("type", "any")
    kinds = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else [kinds]
    if kinds == ["array"]:
        return f"list of {type_of(schema.get('items', {}))}"
    for name in ("oneOf", "anyOf", "allOf"):
        if options := [option for option in schema.get(name, []) if option.get("type") != "null"]:
            return " or ".join(type_of(option) for option in options)
    return " or ".join(kinds) or "any"


def first_content(holder: dict) -> str:
    for kind, content in holder.get("content", {}).items():
        return type_of(content.get("schema", {})) if kind == "application/json" else f"{kind}"
    return ""


def sentence(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def section(path: str, method: str, operation: dict) -> list[str]:
    lines = [f"### {method.upper()} {path}", "", sentence(operation.get("summary") or operation.get("description") or ""), ""]
    if (more := operation.get("description")) and operation.get("summary"):
        lines += [sentence(more), ""]
    scopes = [scope for entry in operation.get("security", []) for scope in entry.get("bearer", [])]
    if scopes:
        lines += [f"Scope: `{', '.join(scopes)}`.", ""]
    if parameters := operation.get("parameters"):
        lines += ["| parameter | in | type | |", "|---|---|---|---|"]
        for parameter in parameters:
            required = " (required)" if parameter.get("required") and parameter["in"] != "path" else ""
            lines.append(f"| `{parameter['name']}` | {parameter['in']} | {type_of(parameter.get('schema', {}))}{required} | {sentence(parameter.get('description', ''))} |")
        lines.append("")
    if body := first_content(operation.get("requestBody", {})):
        lines += [f"Body: {body}.", ""]
    replies = [f"{status} {first_content(reply)}".strip() for status, reply in sorted(operation.get("responses", {}).items())]
    if replies:
        lines += ["Replies: " + ", ".join(replies) + ".", ""]
    return lines


def page(document: dict) -> str:
    topics: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            if operation := operations.get(method):
                topics.setdefault((operation.get("tags") or ["other"])[0], []).extend(section(path, method, operation))
    lines = [HEAD]
    for topic, texts in topics.items():
        lines += [f"## {topic}", "", *texts]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target/debug/onetool")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = page(description(options.binary.resolve()))
    if options.check:
        if FILE.read_text() == text:
            return 0
        print("docs/rest.md is not what the API says; run scripts/rest_reference.py", file=sys.stderr)
        return 1
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

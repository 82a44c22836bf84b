# /// script
# requires-python = ">=3.10"
# dependencies = ["resvg-py>=0.2"]
# ///
"""Diagrams from text, drawn without a server: flowcharts and sequences in Mermaid's notation, and trees.

Other kinds go to a Kroki server that the configuration names in `tools.diagram.kroki_url`.
"""

from __future__ import annotations

import html
import os
import re
import tempfile
import urllib.error
import urllib.request
from typing import Literal

from onetool import Image, get_config, resolve_path

pack = "diagram"

__all__ = ["flow", "sequence", "tree", "render"]

# Each may be changed in onetool.yaml as tools.diagram.<name in lower case>.
MAX_NODES = 300
MAX_EDGES = 1000
MAX_ANSWER_BYTES = 5_000_000
TIMEOUT = 30

_CHAR, _LINE, _PAD_X, _PAD_Y = 7.4, 17, 16, 11
_GAP_LAYER, _GAP_NODE = 54, 30
_FILL, _STROKE, _INK = "#eef3fb", "#4a6fa5", "#1d2733"


def flow(text: str, title: str = "", save: str = "") -> Image | str:
    """Draw a flowchart. The notation is Mermaid's: `A[text]`, `B(round)`, `C{decision}`, `D((circle))`, `A --> B`,
    `A -- label --> B`, `A -.-> B`, `A ==> B`, `A --- B`; the first line may be `flowchart LR` or `flowchart TD`.

    Args:
        text: One edge, or a chain of them, in each line.
        title: Above the diagram.
        save: A path that ends in .png or .svg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        diagram.flow(text="flowchart LR\\nA[Order] --> B{Paid?}\\nB -- yes --> C(Ship)\\nB -- no --> D(Remind)")
    """
    graph = _Graph.parse(text)
    return _finish(graph.draw(title), save)


def sequence(text: str, title: str = "", save: str = "") -> Image | str:
    """Draw who says what to whom. The notation is Mermaid's: `Alice->>Bob: Hello`, `Bob-->>Alice: Hi` (dashed),
    `participant A as Alice`, `Note over A,B: text`.

    Args:
        text: One message, participant or note in each line.
        title: Above the diagram.
        save: A path that ends in .png or .svg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        diagram.sequence(text="Client->>Server: initialize\\nServer-->>Client: capabilities")
    """
    return _finish(_sequence(text, title), save)


def tree(data: dict | list, title: str = "", direction: Literal["LR", "TD"] = "LR", save: str = "") -> Image | str:
    """Draw a hierarchy.

    Args:
        data: Nested dicts and lists: a key is a node, what is below it are its children.
        title: Above the diagram.
        direction: From left to right, or from top to bottom.
        save: A path that ends in .png or .svg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        diagram.tree(data={"src": {"cli": ["run", "serve"], "config": []}})
    """
    graph = _Graph(direction)

    def add(value, parent: str | None, depth: int) -> None:
        if depth > 50:
            raise ValueError("the data is nested more than 50 levels deep")
        pairs = value.items() if isinstance(value, dict) else [(item, None) for item in value] if isinstance(value, list) else [(value, None)]
        for name, below in pairs:
            if isinstance(name, (dict, list)):
                add(name, parent, depth + 1)
                continue
            key = f"n{len(graph.nodes)}"
            graph.node(key, str(name), "round")
            if parent is not None:
                graph.edge(parent, key, "", "line", arrow=False)
            if below is not None:
                add(below, key, depth + 1)

    add(data, None, 0)
    return _finish(graph.draw(title), save)


def render(text: str, language: str, save: str = "") -> Image | str:
    """Draw a diagram in another language with the Kroki server of the configuration.

    Args:
        text: The diagram's source.
        language: One that Kroki knows, such as graphviz, plantuml, mermaid, d2, erd or vegalite.
        save: A path that ends in .png or .svg. Empty: return the picture itself.

    Returns:
        The picture, or the path that it was saved at.

    Example:
        diagram.render(text="digraph { a -> b }", language="graphviz")
    """
    base = get_config("diagram", "kroki_url")
    if not base:
        hint = "add to onetool.yaml: tools: {diagram: {kroki_url: https://kroki.example.org}}; flow and sequence need none"
        raise LookupError(f"no Kroki server is configured\nhint: {hint}")
    if not re.fullmatch(r"[a-z0-9]+", language):
        raise ValueError(f"'{language}' is not the name of a language")
    kind = "svg" if save.lower().endswith(".svg") else "png"
    request = urllib.request.Request(
        f"{str(base).rstrip('/')}/{language}/{kind}", data=text.encode(), headers={"Content-Type": "text/plain"}
    )
    most = _setting("max_answer_bytes", MAX_ANSWER_BYTES)
    try:
        with urllib.request.urlopen(request, timeout=_setting("timeout", TIMEOUT)) as answer:
            data = answer.read(most + 1)
    except urllib.error.HTTPError as error:
        told = error.read(2000).decode("utf-8", "replace").strip()
        raise ValueError(f"Kroki could not draw it ({error.code}): {told}") from None
    except (urllib.error.URLError, TimeoutError) as error:
        raise ConnectionError(f"the Kroki server {base} cannot be reached: {getattr(error, 'reason', error)}") from None
    if len(data) > most:
        raise ValueError(f"the picture has more than {most} bytes")
    if not save:
        return Image(data, "image/png")
    _write(save, data)
    return save


# ---- flowcharts -----------------------------------------------------------------------------------------------------

_SHAPES = [
    (r"\(\(([^()]*)\)\)", "circle"),
    (r"\(\[([^\]]*)\]\)", "round"),
    (r"\{([^}]*)\}", "decision"),
    (r"\[([^\]]*)\]", "box"),
    (r"\(([^)]*)\)", "round"),
]
_NODE = r"(?P<key>[\w.]+(?:-(?![-.=>])[\w.]+)*)\s*"
_LINK = re.compile(
    r"\s*(?:(?P<a>--|==|-\.)\s*(?P<label>[^|>=.\-][^|>]*?)\s*(?P<b>-->|---|==>|===|\.->|\.-)"
    r"|(?P<plain>-{2,}>|={2,}>|-\.+->|-{3,}|={3,}|-\.+-)(?:\|(?P<pipe>[^|]*)\|)?)\s*"
)


class _Graph:
    """Nodes in layers: an edge goes from a layer to a later one wherever there is no circle."""

    def __init__(self, direction: str):
        self.direction = direction
        self.nodes: dict[str, dict] = {}
        self.edges: list[dict] = []

    @classmethod
    def parse(cls, text: str) -> _Graph:
        lines = [line.split("%%")[0].strip().rstrip(";") for line in text.strip().splitlines()]
        graph = cls("TD")
        for number, line in enumerate(lines, start=1):
            head = re.fullmatch(r"(?:flowchart|graph)\s+(LR|RL|TD|TB|BT)", line)
            if head:
                graph.direction = "LR" if head[1] in ("LR", "RL") else "TD"
            elif line and not re.match(r"(style|classDef|class|linkStyle|subgraph|end|direction)\b", line):
                graph._line(line, number)
        if not graph.nodes:
            raise ValueError("there is nothing to draw\nhint: each line is an edge, such as A[Start] --> B[End]")
        return graph

    def _line(self, line: str, number: int) -> None:
        before, at, link = None, 0, None
        while at < len(line):
            keys, at = self._group(line, at, number)
            if before is not None:
                sign = link["plain"] or link["b"]
                label = (link["label"] or link["pipe"] or "").strip().strip('"')
                kind = "dashed" if "." in sign or link["a"] == "-." else "thick" if "=" in sign else "line"
                for source in before:
                    for target in keys:
                        self.edge(source, target, label, kind, arrow=sign.endswith(">"))
            before = keys
            link = _LINK.match(line, at)
            if link is None:
                if line[at:].strip():
                    raise ValueError(f"line {number} is not understood from here on: {line[at:].strip()[:60]}")
                return
            at = link.end()
        if link is not None and at >= len(line) and before is not None and link.end() == len(line):
            raise ValueError(f"line {number} ends with an arrow that leads nowhere")

    def _group(self, line: str, at: int, number: int) -> tuple[list[str], int]:
        """`A`, `A[text]` or `A & B`."""
        keys = []
        while True:
            node = re.compile(_NODE).match(line, at)
            if node is None:
                raise ValueError(f"line {number}: a node is expected here: {line[at : at + 60] or 'the end of the line'}")
            key, at = node["key"], node.end()
            for pattern, shape in _SHAPES:
                text = re.compile(pattern).match(line, at)
                if text:
                    self.node(key, text[1].strip().strip('"'), shape)
                    at = text.end()
                    break
            else:
                self.node(key, None, "box")
            keys.append(key)
            more = re.compile(r"\s*&\s*").match(line, at)
            if more is None:
                return keys, at
            at = more.end()

    def node(self, key: str, text: str | None, shape: str) -> None:
        known = self.nodes.setdefault(key, {"text": key, "shape": "box"})
        if text is not None:
            known.update(text=text, shape=shape)
        if len(self.nodes) > _setting("max_nodes", MAX_NODES):
            raise ValueError(f"more than {_setting('max_nodes', MAX_NODES)} nodes\nhint: tools.diagram.max_nodes allows more")

    def edge(self, source: str, target: str, label: str, kind: str, arrow: bool) -> None:
        self.edges.append({"from": source, "to": target, "label": label, "kind": kind, "arrow": arrow})
        if len(self.edges) > _setting("max_edges", MAX_EDGES):
            raise ValueError(f"more than {_setting('max_edges', MAX_EDGES)} edges\nhint: tools.diagram.max_edges allows more")

    def draw(self, title: str) -> str:
        layers = self._layers()
        self._place(layers)
        body = []
        for edge in self.edges:
            body.append(self._edge(edge))
        for node in self.nodes.values():
            body.append(_node(node))
        width = max(node["x"] + node["w"] / 2 for node in self.nodes.values()) + 30
        height = max(node["y"] + node["h"] / 2 for node in self.nodes.values()) + 30
        return _svg(width, height, body, title)

    def _layers(self) -> list[list[str]]:
        after = {key: [] for key in self.nodes}
        for edge in self.edges:
            if edge["from"] != edge["to"]:
                after[edge["from"]].append(edge["to"])
        # An edge back into what is being looked at closes a circle, and does not count for the layers.
        state, order, back = {}, [], set()
        for start in self.nodes:
            if start in state:
                continue
            stack = [(start, iter(after[start]))]
            state[start] = "open"
            while stack:
                key, rest = stack[-1]
                following = next(rest, None)
                if following is None:
                    state[key] = "done"
                    order.append(key)
                    stack.pop()
                elif following not in state:
                    state[following] = "open"
                    stack.append((following, iter(after[following])))
                elif state[following] == "open":
                    back.add((key, following))
        level = dict.fromkeys(self.nodes, 0)
        for key in reversed(order):
            for following in after[key]:
                if (key, following) not in back:
                    level[following] = max(level[following], level[key] + 1)
        layers: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
        for key in self.nodes:
            layers[level[key]].append(key)
        near = {key: [] for key in self.nodes}
        for edge in self.edges:
            near[edge["from"]].append(edge["to"])
            near[edge["to"]].append(edge["from"])
        # Few crossings: each node goes near the middle of its neighbours, in a few sweeps.
        for _ in range(8):
            for layer in layers:
                places = {key: place / max(len(other) - 1, 1) for other in layers for place, key in enumerate(other)}
                layer.sort(key=lambda key: sum(places[n] for n in near[key]) / len(near[key]) if near[key] else places[key])
        return layers

    def _place(self, layers: list[list[str]]) -> None:
        for node in self.nodes.values():
            lines = _lines(node["text"])
            node["lines"] = lines
            node["w"] = max(len(line) for line in lines) * _CHAR + 2 * _PAD_X
            node["h"] = len(lines) * _LINE + 2 * _PAD_Y
            if node["shape"] == "decision":
                node["w"], node["h"] = node["w"] * 1.35, node["h"] * 1.6
            elif node["shape"] == "circle":
                node["w"] = node["h"] = max(node["w"], node["h"])
        across, along = ("h", "w") if self.direction == "LR" else ("w", "h")
        labels = max((len(edge["label"]) for edge in self.edges), default=0)
        gap = _GAP_LAYER + (labels * _CHAR * 0.9 if self.direction == "LR" else (16 if labels else 0))
        widths = [sum(self.nodes[key][across] for key in layer) + _GAP_NODE * (len(layer) - 1) for layer in layers]
        position = 30.0
        for layer, total in zip(layers, widths):
            depth = max(self.nodes[key][along] for key in layer)
            side = 30 + (max(widths) - total) / 2
            for key in layer:
                node = self.nodes[key]
                first, second = position + depth / 2, side + node[across] / 2
                node["x"], node["y"] = (first, second) if self.direction == "LR" else (second, first)
                side += node[across] + _GAP_NODE
            position += depth + gap

    def _edge(self, edge: dict) -> str:
        source, target = self.nodes[edge["from"]], self.nodes[edge["to"]]
        style = {"dashed": ' stroke-dasharray="5 4"', "thick": ' stroke-width="3"'}.get(edge["kind"], "")
        marker = ' marker-end="url(#arrow)"' if edge["arrow"] else ""
        if source is target:
            right, top = source["x"] + source["w"] / 2, source["y"]
            path = f"M {right:.1f} {top - 6:.1f} C {right + 40:.1f} {top - 26:.1f} {right + 40:.1f} {top + 26:.1f} {right:.1f} {top + 6:.1f}"
            middle = (right + 34, top)
        else:
            flat = self.direction == "LR"
            forward = (target["x"] > source["x"]) if flat else (target["y"] > source["y"])
            sign = 1 if forward else -1
            if flat:
                a = (source["x"] + sign * source["w"] / 2, source["y"])
                b = (target["x"] - sign * target["w"] / 2, target["y"])
                bend = max(abs(b[0] - a[0]) / 2, 20) * sign
                c, d = (a[0] + bend, a[1]), (b[0] - bend, b[1])
            else:
                a = (source["x"], source["y"] + sign * source["h"] / 2)
                b = (target["x"], target["y"] - sign * target["h"] / 2)
                bend = max(abs(b[1] - a[1]) / 2, 20) * sign
                c, d = (a[0], a[1] + bend), (b[0], b[1] - bend)
            if not forward:
                # Around the side, so that it does not lie on the edges that go forward.
                shift = 0.5 * max(source["w"], target["w"]) + 30
                c, d = ((c[0], c[1] + shift), (d[0], d[1] + shift)) if flat else ((c[0] + shift, c[1]), (d[0] + shift, d[1]))
            path = f"M {a[0]:.1f} {a[1]:.1f} C {c[0]:.1f} {c[1]:.1f} {d[0]:.1f} {d[1]:.1f} {b[0]:.1f} {b[1]:.1f}"
            middle = ((a[0] + 3 * c[0] + 3 * d[0] + b[0]) / 8, (a[1] + 3 * c[1] + 3 * d[1] + b[1]) / 8)
        style = style or ' stroke-width="1.5"'
        drawn = f'<path d="{path}" fill="none" stroke="{_STROKE}"{style}{marker}/>'
        return drawn + (_label(edge["label"], *middle) if edge["label"] else "")


def _lines(text: str) -> list[str]:
    """The text in lines of about 24 characters, and where it has line breaks of its own."""
    found: list[str] = []
    for part in re.split(r"<br\s*/?>|\\n|\n", text):
        line = ""
        for word in part.split():
            if line and len(line) + len(word) >= 24:
                found.append(line)
                line = word
            else:
                line = f"{line} {word}".strip()
        found.append(line)
    return found or [""]


def _node(node: dict) -> str:
    x, y, w, h = node["x"], node["y"], node["w"], node["h"]
    paint = f'fill="{_FILL}" stroke="{_STROKE}" stroke-width="1.5"'
    if node["shape"] == "decision":
        points = f"{x:.1f},{y - h / 2:.1f} {x + w / 2:.1f},{y:.1f} {x:.1f},{y + h / 2:.1f} {x - w / 2:.1f},{y:.1f}"
        shape = f'<polygon points="{points}" {paint}/>'
    elif node["shape"] == "circle":
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{w / 2:.1f}" {paint}/>'
    else:
        radius = 16 if node["shape"] == "round" else 4
        shape = f'<rect x="{x - w / 2:.1f}" y="{y - h / 2:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius}" {paint}/>'
    return shape + _text(node["lines"], x, y)


def _text(lines: list[str], x: float, y: float, anchor: str = "middle") -> str:
    top = y - (len(lines) - 1) * _LINE / 2 + 4.5
    rows = (
        f'<text x="{x:.1f}" y="{top + i * _LINE:.1f}" text-anchor="{anchor}">{html.escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return "".join(rows)


def _label(text: str, x: float, y: float) -> str:
    width = len(text) * _CHAR + 8
    back = f'<rect x="{x - width / 2:.1f}" y="{y - 10:.1f}" width="{width:.1f}" height="20" fill="white" opacity="0.9"/>'
    return back + _text([text], x, y)


# ---- sequences ------------------------------------------------------------------------------------------------------

_MESSAGE = re.compile(r"(.+?)\s*(-->>|->>|-->|->|--x|-x|--\)|-\))\s*[+-]?\s*(.+?)\s*:\s*(.*)")


def _sequence(text: str, title: str) -> str:
    names: dict[str, str] = {}
    steps: list[dict] = []
    for number, line in enumerate(text.strip().splitlines(), start=1):
        line = line.split("%%")[0].strip()
        if not line or line == "sequenceDiagram" or re.match(r"(autonumber|activate|deactivate|end|loop|alt|else|opt|par)\b", line):
            continue
        named = re.fullmatch(r"(?:participant|actor)\s+(.+?)(?:\s+as\s+(.+))?", line)
        note = re.fullmatch(r"Note\s+(over|left of|right of)\s+([^:]+):\s*(.*)", line, re.I)
        message = _MESSAGE.fullmatch(line)
        if named:
            names[named[1]] = named[2] or named[1]
        elif note:
            who = [name.strip() for name in note[2].split(",")]
            for name in who:
                names.setdefault(name, name)
            steps.append({"note": note[3], "who": who})
        elif message:
            source, sign, target, words = message.groups()
            names.setdefault(source, source)
            names.setdefault(target, target)
            steps.append({"from": source, "to": target, "text": words, "dashed": sign.startswith("--"), "lost": "x" in sign})
        else:
            raise ValueError(f"line {number} is not understood: {line[:80]}\nhint: a message is `Alice->>Bob: text`")
        if len(names) > _setting("max_nodes", MAX_NODES) or len(steps) > _setting("max_edges", MAX_EDGES):
            raise ValueError("there are too many participants or messages\nhint: tools.diagram.max_nodes and max_edges allow more")
    if not names:
        raise ValueError("there is nothing to draw\nhint: a message is `Alice->>Bob: text`")
    order = list(names)
    widest = max([len(name) for name in names.values()] + [len(step.get("text", "")) * 0.75 for step in steps])
    gap = max(150.0, widest * _CHAR + 50)
    place = {name: 30 + gap / 2 + i * gap for i, name in enumerate(order)}
    body, y = [], 100.0
    for step in steps:
        if "note" in step:
            left, right = min(place[n] for n in step["who"]), max(place[n] for n in step["who"])
            width = max(right - left + 60, len(step["note"]) * _CHAR + 24)
            middle = (left + right) / 2
            body.append(f'<rect x="{middle - width / 2:.1f}" y="{y - 15:.1f}" width="{width:.1f}" height="30" fill="#fff7d6" stroke="#c9b458"/>')
            body.append(_text([step["note"]], middle, y))
        else:
            dash = ' stroke-dasharray="5 4"' if step["dashed"] else ""
            a, b = place[step["from"]], place[step["to"]]
            head = ' marker-end="url(#cross)"' if step["lost"] else ' marker-end="url(#arrow)"'
            if a == b:
                path = f"M {a:.1f} {y - 8:.1f} h 40 v 20 h -38"
                body.append(_text([step["text"]], a + 50, y, "start"))
            else:
                path = f"M {a:.1f} {y:.1f} H {b:.1f}"
                body.append(_text([step["text"]], (a + b) / 2, y - 14))
            body.append(f'<path d="{path}" fill="none" stroke="{_STROKE}" stroke-width="1.5"{dash}{head}/>')
        y += 50
    heads = []
    for name, shown in names.items():
        x = place[name]
        heads.append(f'<line x1="{x:.1f}" y1="60" x2="{x:.1f}" y2="{y:.1f}" stroke="#9db2cf"/>')
        heads.append(_node({"x": x, "y": 42, "w": len(shown) * _CHAR + 32, "h": 36, "shape": "box", "lines": [shown]}))
    return _svg(60 + gap * len(order), y + 20, heads + body, title)


# ---- pictures -------------------------------------------------------------------------------------------------------


def _svg(width: float, height: float, body: list[str], title: str) -> str:
    top = 36 if title else 0
    width = max(width, len(title) * 9 + 40)
    head = f'<text x="{width / 2:.1f}" y="26" text-anchor="middle" font-size="17" font-weight="bold">{html.escape(title)}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height + top:.0f}" '
        f'viewBox="0 0 {width:.0f} {height + top:.0f}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="13" fill="{_INK}">'
        '<defs><marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto" '
        f'markerUnits="userSpaceOnUse"><path d="M0 0L10 5L0 10z" fill="{_STROKE}"/></marker>'
        '<marker id="cross" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" orient="auto" '
        f'markerUnits="userSpaceOnUse"><path d="M1 1L9 9M9 1L1 9" stroke="{_STROKE}" stroke-width="2"/></marker></defs>'
        f'<rect width="100%" height="100%" fill="white"/>{head if title else ""}<g transform="translate(0 {top})">{"".join(body)}</g></svg>'
    )


def _finish(svg: str, save: str) -> Image | str:
    if save.lower().endswith(".svg"):
        _write(save, svg.encode())
        return save
    if save and not save.lower().endswith(".png"):
        raise ValueError(f"{save} must end in .png or .svg")
    import resvg_py

    data = bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=2))
    if not save:
        return Image(data, "image/png")
    _write(save, data)
    return save


def _write(save: str, data: bytes) -> None:
    full = resolve_path(save, write=True)
    full.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=full.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.chmod(temporary, 0o644)
    os.replace(temporary, full)


def _setting(name: str, default: int) -> int:
    value = get_config("diagram", name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"tools.diagram.{name} must be a whole number above 0, not {value!r}")
    return value

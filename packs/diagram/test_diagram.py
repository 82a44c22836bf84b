"""The pack `diagram`: what is drawn contains what was asked for, and lies where it should."""

from __future__ import annotations

import http.server
import io
import re
import threading
import xml.etree.ElementTree as xml

import PIL.Image
import pytest

SVG = "{http://www.w3.org/2000/svg}"
ORDER = "flowchart LR\nA[Order] --> B{Paid?}\nB -- yes --> C(Ship)\nB -.->|no| D((Remind))\nD --> B %% back\nC & D ==> E"


def texts(tmp_path, name: str) -> dict[str, tuple[float, float]]:
    root = xml.fromstring((tmp_path / name).read_text())
    return {text.text: (float(text.get("x")), float(text.get("y"))) for text in root.iter(f"{SVG}text")}


def test_a_flowchart_has_its_nodes_in_order(start, tmp_path):
    diagram = start("diagram")
    assert diagram.flow(text=ORDER, title="Orders & more", save="o.svg") == "o.svg"
    places = texts(tmp_path, "o.svg")
    assert set(places) == {"Order", "Paid?", "Ship", "Remind", "E", "yes", "no", "Orders & more"}
    across = [places[name][0] for name in ("Order", "Paid?", "Ship", "E")]
    assert across == sorted(across) and len(set(across)) == 4
    drawing = (tmp_path / "o.svg").read_text()
    assert len(re.findall(r"<path d=\"M [^\"]* C", drawing)) == 6
    assert drawing.count("stroke-dasharray") == 1 and drawing.count('stroke-width="3"') == 2


def test_boxes_do_not_overlap(start, tmp_path):
    lines = [f"n{i} --> n{i * 2 + 1} & n{i * 2 + 2}" for i in range(15)]
    start("diagram").flow(text="\n".join(["graph TD", *lines]), save="t.svg")
    boxes = []
    for box in xml.fromstring((tmp_path / "t.svg").read_text()).iter(f"{SVG}rect"):
        if box.get("stroke"):
            x, y, w, h = (float(box.get(name)) for name in ("x", "y", "width", "height"))
            boxes.append((x, y, x + w, y + h))
    assert len(boxes) == 31
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)


def test_a_picture_shows_text(start):
    picture = start("diagram").flow(text=ORDER)
    image = PIL.Image.open(io.BytesIO(picture.data)).convert("RGB")
    assert picture.media_type == "image/png" and image.width > 600
    colours = {colour for _, colour in image.getcolors(1 << 20)}
    assert (0xEE, 0xF3, 0xFB) in colours and len(colours) > 10


def test_a_sequence_goes_from_top_to_bottom(start, tmp_path):
    text = "sequenceDiagram\nparticipant C as Client\nC->>S: initialize\nS-->>C: capabilities\nNote over C,S: ready\nS->>S: think\nC-xS: lost"
    start("diagram").sequence(text=text, save="s.svg")
    places = texts(tmp_path, "s.svg")
    down = [places[name][1] for name in ("Client", "initialize", "capabilities", "ready", "think", "lost")]
    assert down == sorted(down)
    assert places["Client"][0] < places["initialize"][0] < places["S"][0]


def test_a_tree(start, tmp_path):
    start("diagram").tree(data={"src": {"cli": ["run", "serve"], "config": []}, "docs": None}, save="t.svg")
    places = texts(tmp_path, "t.svg")
    assert set(places) == {"src", "cli", "run", "serve", "config", "docs"}
    assert places["src"][0] < places["cli"][0] < places["run"][0]


def test_markup_in_text_stays_text(start, tmp_path):
    start("diagram").flow(text='A["<script>x</script> & y"] --> B', save="m.svg")
    drawing = (tmp_path / "m.svg").read_text()
    assert "<script>" not in drawing and "&lt;script&gt;" in drawing
    xml.fromstring(drawing)


@pytest.fixture
def kroki():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            code = 200 if body != b"bad" else 400
            self.send_response(code)
            self.end_headers()
            self.wfile.write(f"{self.path}:".encode() + body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_other_languages_go_to_the_server(start, kroki, tmp_path, failed):
    diagram = start("diagram", config={"diagram": {"kroki_url": kroki, "max_answer_bytes": 30}})
    assert diagram.render(text="digraph{}", language="graphviz").data == b"/graphviz/png:digraph{}"
    diagram.render(text="x", language="d2", save="d.svg")
    assert (tmp_path / "d.svg").read_text() == "/d2/svg:x"
    failed("ValueError", "could not draw it (400)", diagram.render, text="bad", language="d2")
    failed("ValueError", "more than 30 bytes", diagram.render, text="x" * 40, language="d2")
    failed("ValueError", "not the name", diagram.render, text="x", language="../x")


def test_mistakes_are_explained(start, failed):
    diagram = start("diagram", config={"diagram": {"max_nodes": 3}})
    failed("ValueError", "line 2", diagram.flow, text="A --> B\nA -> -> B")
    failed("ValueError", "leads nowhere", diagram.flow, text="A -->")
    failed("ValueError", "nothing to draw", diagram.flow, text="flowchart LR")
    failed("ValueError", "more than 3 nodes", diagram.flow, text="A --> B --> C --> D")
    failed("ValueError", "line 1 is not understood", diagram.sequence, text="Alice says hello")
    failed("LookupError", "kroki_url", diagram.render, text="x", language="d2")
    failed("PermissionError", "outside", diagram.flow, text="A --> B", save="/x.svg")
    failed("ValueError", "must end in", diagram.flow, text="A --> B", save="x.gif")

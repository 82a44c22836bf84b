"""The Python of the documentation runs, each example as its reader would run it.

    scripts/test_docs.sh
"""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import threading

import pytest

from test_docs import BINARY, ROOT, onetool

# The blocks of each page that a test below runs; those of README.md and the quick start's first are run by test_docs.py.
RUN = {"README.md": 2, "gallery.md": 1, "python-tools.md": 4, "python.md": 2, "quickstart.md": 2, "web-and-models.md": 2}


def examples(page: str) -> list[str]:
    path = ROOT / page if page == "README.md" else ROOT / "docs" / page
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.M | re.S)


def test_every_example_is_run():
    pages = ["README.md", *(path.name for path in sorted(ROOT.glob("docs/*.md")))]
    assert {page: len(examples(page)) for page in pages if examples(page)} == RUN


@pytest.fixture
def project(tmp_path) -> pathlib.Path:
    """A project in a home folder."""
    folder = tmp_path / "project"
    configure(folder, "{}\n")
    return folder


def configure(project: pathlib.Path, text: str):
    (project / ".onetool").mkdir(parents=True, exist_ok=True)
    (project / ".onetool/onetool.yaml").write_text(text)


def run(code: str, project: pathlib.Path) -> str:
    # With all of the environment: packages are installed from where this machine gets them.
    environment = {**os.environ, "HOME": str(project.parent)}
    done = subprocess.run([BINARY, "run", "-"], cwd=project, env=environment, capture_output=True, text=True, input=code, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def runs(commands: list[str], project: pathlib.Path) -> list[str]:
    """The replies of one server to one client."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(project.parent)}
    server = subprocess.Popen([BINARY, "serve"], cwd=project, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(number: int, method: str, params: dict) -> dict:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
        server.stdin.flush()
        for line in server.stdout:
            message = json.loads(line)
            if message.get("id") == number:
                return message["result"]
        raise AssertionError("the server has ended")

    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "docs", "version": "1"}}
    ask(0, "initialize", client)
    server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    replies = []
    for number, command in enumerate(commands, start=1):
        reply = ask(number, "tools/call", {"name": "run", "arguments": {"command": command}})
        assert not reply.get("isError"), reply
        replies.append(reply["content"][-1]["text"])
    server.stdin.close()
    server.wait(timeout=30)
    return replies


def test_a_session_keeps_its_rows(project):
    (project / "sales.csv").write_text("month,amount\nMay,1.5\nJune,2\n")
    assert runs(examples("python.md"), project)[-1] == "3.5"


def test_the_python_file_is_a_pack_with_a_test(project):
    pack, imports, annotated, test = examples("python-tools.md")
    (project / "weather_tools.py").write_text(pack)
    bank = project / ".onetool/tools/bank"
    bank.mkdir(parents=True)
    (bank / "bank_tools.py").write_text(f'pack = "bank"\n{imports}{annotated}    return 1.5\n')
    (project / "test_weather.py").write_text(test)
    command = ["uv", "run", "--quiet", "--no-project", "--isolated", "--with", "pytest", "--with", "httpx", "--with-editable", ROOT / "python"]
    done = subprocess.run([*command, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=project, capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    assert json.loads(run("bank.balance(account='a')", project)) == 1.5


def test_the_packs_of_the_gallery_work_together(project):
    for pack in ("db", "excel", "plot"):
        assert onetool("packs", "add", pack, folder=project, home=project.parent).returncode == 0
    with sqlite3.connect(project / "shop.sqlite") as shop:
        shop.execute("CREATE TABLE orders (month TEXT, total REAL)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [("May", 1.5), ("May", 2), ("June", 4)])
    shown = run(examples("gallery.md")[0], project)
    assert (project / "report.xlsx").stat().st_size > 1000, shown
    assert "image" in shown, shown


def test_a_function_is_saved_in_the_quick_start(project):
    (project / "src").mkdir()
    for name, size in {"short": 1, "long": 3}.items():
        (project / f"src/{name}.rs").write_text("// x\n" * size)
    assert json.loads(runs([examples("quickstart.md")[1]], project)[-1]) == ["src/long.rs", "src/short.rs"]


class Site(http.server.BaseHTTPRequestHandler):
    """Pages, a search engine like SearXNG, and a model that answers in the format of chat completions."""

    def do_GET(self):
        if self.path.startswith("/search"):
            hit = {"title": "A sandbox", "url": "https://example.org/", "content": "in Rust"}
            self.reply("application/json", json.dumps({"results": [hit]}))
        elif self.path == "/robots.txt":
            self.reply("text/plain", "")
        else:
            self.reply("text/html", "<html><body><main><h1>Prices</h1><p>Bread costs 3.</p></main></body></html>")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.reply("application/json", json.dumps({"choices": [{"message": {"role": "assistant", "content": "[3]"}, "finish_reason": "stop"}]}))

    def reply(self, kind: str, text: str):
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


def test_pages_are_read_and_given_to_a_model(project, site):
    configure(project, f"""\
tools:
  web:
    allowed_hosts: ["{site}"]
    engines: {{local: {{kind: searxng, url: "http://{site}"}}}}
  llm: {{endpoint: "http://{site}/v1", model: qwen3}}
""")
    pages, models = (block.replace("https://example.org", f"http://{site}") for block in examples("web-and-models.md"))
    prices, asked = models.splitlines()
    code = f"{pages}\nprices = {prices}\nanswer = {asked}\n[page, len(pages), hits[0]['title'], prices, answer]"
    page, count, title, prices, answer = json.loads(run(code, project))
    assert "Bread costs 3." in page and (count, title, prices, answer) == (2, "A sandbox", [3], "[3]")

"""The documentation is true: its links lead somewhere, its commands exist, its configurations are understood.

    scripts/test_docs.sh
"""

from __future__ import annotations

import ast
import html.parser
import http.server
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = pathlib.Path(os.environ["ONETOOL_BINARY"]).resolve()
FILES = sorted([*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("packs/**/README.md"), ROOT / "packaging/README.md"])
NAMES = [str(path.relative_to(ROOT)) for path in FILES]


def blocks(language: str):
    for path, name in zip(FILES, NAMES):
        for number, text in enumerate(re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.M | re.S), start=1):
            yield pytest.param(text, id=f"{name}-{number}")


def onetool(*arguments: str, folder: pathlib.Path, home: pathlib.Path | None = None, stdin: str | None = None) -> subprocess.CompletedProcess:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home or folder), "NO_COLOR": "1"}
    return subprocess.run([BINARY, *arguments], cwd=folder, env=environment, capture_output=True, text=True, input=stdin, timeout=120)


def slug(heading: str) -> str:
    text = re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower())
    return text.replace(" ", "-")


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name):
    path = ROOT / name
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        other = (path.parent / file).resolve() if file else path
        assert other.exists(), f"{name}: {target}"
        if anchor:
            headings = {slug(heading) for heading in re.findall(r"^#+ (.+)$", other.read_text(), re.M)}
            assert anchor in headings, f"{name}: {target}"


# test_examples.py runs it, too.
@pytest.mark.parametrize("text", list(blocks("python")))
def test_python_is_python(text):
    compile(text, "<docs>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("text", list(blocks("json")))
def test_json_is_json(text):
    json.loads(text)


@pytest.mark.parametrize("text", list(blocks("toml")))
def test_toml_is_toml(text):
    tomllib.loads(text)


@pytest.mark.parametrize("text", list(blocks("yaml")))
def test_configurations_are_understood(text, tmp_path):
    if text.startswith("# .onetool/secrets.yaml"):
        return
    (tmp_path / ".onetool").mkdir()
    # Names that the text takes from the secrets, with some value each.
    secrets = "".join(f"{name}: value-of-{name.lower()}\n" for name in set(re.findall(r"\$\{(\w+)\}", text)))
    if "s3://" in text:
        secrets += "AWS_ACCESS_KEY_ID: key\nAWS_SECRET_ACCESS_KEY: secret\n"
    (tmp_path / ".onetool/secrets.yaml").write_text(secrets)
    (tmp_path / ".onetool/onetool.yaml").write_text(text)
    said = onetool("run", "1+1", folder=tmp_path)
    assert (said.returncode, said.stdout.strip(), said.stderr) == (0, "2", "")


def test_the_rest_reference_is_what_the_api_says():
    checked = subprocess.run([ROOT / "scripts/rest_reference.py", "--check", "--binary", BINARY], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def test_the_configurations_for_teams_are_understood(tmp_path):
    """The files in packaging/ that start several servers: valid YAML, with a configuration that onetool reads."""
    yaml = pytest.importorskip("yaml")
    compose = yaml.safe_load((ROOT / "packaging/compose/compose.yaml").read_text())
    assert {"postgres", "onetool-1", "onetool-2", "nginx"} <= set(compose["services"])
    manifests = list(yaml.safe_load_all((ROOT / "packaging/kubernetes/onetool.yaml").read_text()))
    assert [manifest["kind"] for manifest in manifests] == ["ConfigMap", "Deployment", "Service", "PodDisruptionBudget"]
    for number, text in enumerate([(ROOT / "packaging/compose/project/.onetool/onetool.yaml").read_text(), manifests[0]["data"]["onetool.yaml"]]):
        folder = tmp_path / str(number) / ".onetool"
        folder.mkdir(parents=True)
        (folder / "onetool.yaml").write_text(text)
        (folder / "secrets.yaml").write_text("STATE_PASSWORD: a\nONETOOL_TOKEN: abcdefgh12345678\nMETRICS_TOKEN: abcdefgh12345679\nSTATE: postgres://onetool@127.0.0.1:1/onetool\n")
        said = onetool("config", folder=folder.parent, home=tmp_path)
        assert said.returncode == 0, said.stdout + said.stderr


def commands():
    for parameter in blocks("sh"):
        for line in parameter.values[0].splitlines():
            line = re.sub(r"\s+#.*", "", line).strip()
            if re.match(r"(target/release/)?onetool ", line):
                yield pytest.param(line, id=f"{parameter.id}: {line[:50]}")


@pytest.mark.parametrize("line", list(commands()))
def test_commands_exist(line, tmp_path):
    """A command that clap does not understand ends with 2; `--help` in its place keeps it from doing anything."""
    words = shlex.split(line)[1:]
    path = []
    for word in words:
        if not re.fullmatch(r"[a-z][a-z-]*", word):
            break
        if onetool(*path, word, "--help", folder=tmp_path).returncode != 0:
            break
        path.append(word)
    assert path, line
    shown = onetool(*path, "--help", folder=tmp_path).stdout
    usage = re.search(r"Usage: onetool((?: [a-z-]+)*)", shown)[1].split()
    assert usage == path[: len(usage)] and usage, f"{line}: {usage}"
    for option in re.findall(r"(?<= )--[a-z-]+", line):
        assert option in shown or option in ("--config",), f"{line}: {option}"


def readme_block(language: str, number: int) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)[number]


def test_the_first_example_of_the_readme_works(tmp_path):
    done = onetool("run", "-", folder=ROOT, home=tmp_path, stdin=readme_block("python", 0))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "crates/onetool-sandbox/Cargo.toml" in json.loads(done.stdout)


def test_the_three_commands_of_the_readme_are_those_of_the_quick_start():
    quick = re.search(r"^```sh\n(.*?)^```", (ROOT / "docs/quickstart.md").read_text(), re.M | re.S)[1]
    plain = lambda text: [re.sub(r"\s+#.*", "", line) for line in text.splitlines()]
    assert plain(readme_block("sh", 0)) == plain(quick)[:3]


def test_the_first_screen_tells_what_was_measured():
    """The figures of tokens are those of bench/README.md, in the text and in the picture."""
    readme, bench = (ROOT / "README.md").read_text(), (ROOT / "bench/README.md").read_text()
    picture = (ROOT / "docs/images/tokens.svg").read_text()
    rows = re.search(r"^\| 500 \| plain MCP .*\n.*\n.*", bench, re.M)[0].splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    standing, together = ([row[column] for row in cells] for column in (2, 5))
    for figures in (standing, together):
        assert re.search(r"\| {} \| {} \| \*\*{}\*\* \|".format(*figures), readme), figures
    for figure in together:
        assert f">{figure}<" in picture, figure


def test_the_first_commands_of_the_readme_work(tmp_path):
    (first,) = readme_block("sh", 1).splitlines()
    assert first.startswith("cargo run --release -- ")
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(ROOT / "README.md", project)
    done = onetool(*shlex.split(first)[4:], folder=project, home=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "45"), done.stderr
    for line in readme_block("sh", 2).splitlines():
        words = shlex.split(line, comments=True)
        assert words[0] == "target/release/onetool"
        # A server whose standard input is at its end stops.
        done = onetool(*words[1:], folder=project, home=tmp_path, stdin="")
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_the_python_file_of_the_readme_is_a_pack(tmp_path):
    folder = tmp_path / ".onetool/tools/weather"
    folder.mkdir(parents=True)
    (folder / "weather_tools.py").write_text(readme_block("python", 1))
    done = onetool("run", 'ot.tools("weather.today", info="sig")', folder=tmp_path)
    assert done.returncode == 0 and "weather.today(city: str, unit: str = 'C')" in done.stdout, done.stdout + done.stderr


def test_the_bundle_of_the_readme_can_be_called(tmp_path):
    """Its commands against an upstream on this machine: the host that the example names is replaced."""

    class Weather(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"current": {"condition": {"text": "Sunny"}}}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Weather)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_port}"
    shutil.copytree(ROOT / "examples/bundles", tmp_path / "examples/bundles")
    tool = tmp_path / "examples/bundles/weather/current.json"
    tool.write_text(re.sub(r"https?://[^/\"]+", f"http://{address}", tool.read_text()))
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool/onetool.yaml").write_text(f'http: {{allowed_hosts: ["{address}"]}}\n')
    (tmp_path / ".onetool/secrets.yaml").write_text("WEATHER_API_KEY: abc\n")
    commands = [block for block in re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S) if "bundles put weather" in block]
    for line in commands[0].splitlines():
        done = onetool(*shlex.split(line, comments=True)[1:], folder=tmp_path)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    assert "Sunny" in done.stdout
    server.shutdown()


def test_the_quick_start_works(tmp_path):
    """Its commands after the installation, with a client that has a server; scripts/test_quickstart.sh runs them with real ones."""
    text = (ROOT / "docs/quickstart.md").read_text()
    five, _, gallery = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)[:3]
    lines = [re.sub(r"\s+#.*", "", line) for line in five.splitlines()]
    assert lines[0] == "uv tool install onetool" and len(lines) == 5
    home, project = tmp_path / "home", tmp_path / "project"
    (home / ".cursor").mkdir(parents=True)
    project.mkdir()
    server = ROOT / "crates/onetool-proxy/tests/proxy/server.py"
    entry = {"mcpServers": {"mine": {"command": sys.executable, "args": [str(server), "--mode", "normal"]}}}
    (home / ".cursor/mcp.json").write_text(json.dumps(entry))
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=project, check=True)
    for line in [*lines[1:], *gallery.splitlines()]:
        words = shlex.split(line)
        assert words[0] == "onetool"
        done = onetool(*words[1:], folder=project, home=home)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        if "ot.packs" in line:
            assert "mine" in done.stdout, done.stdout
    assert json.loads(done.stdout)["branch"] == "main"
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"], cwd=project, check=True)
    snippet = re.findall(r"```python\n(.*?)```", text, re.S)[0]
    done = onetool("run", "-", folder=project, home=home, stdin=snippet)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stdout + done.stderr


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.ids = [], set()

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if "id" in named:
            self.ids.add(named["id"])
        if tag == "a" and "href" in named:
            self.found.append(named["href"])


def test_the_site_is_whole(tmp_path):
    subprocess.run([ROOT / "scripts/docs", "--output", tmp_path], check=True, capture_output=True)
    pages = {}
    for path in tmp_path.glob("*.html"):
        pages[path.name] = links = Links()
        links.feed(path.read_text())
    assert set(pages) == {f"{path.stem}.html" for path in ROOT.glob("docs/*.md")}
    for name, links in pages.items():
        for target in links.found:
            file, _, anchor = target.partition("#")
            if re.match(r"[a-z]+:", target) or file.startswith("../"):
                continue
            assert (file or name) in pages, f"{name}: {target}"
            assert not anchor or anchor in pages[file or name].ids, f"{name}: {target}"
    index = json.loads((tmp_path / "search.json").read_text())
    assert any("resolve_path" in part["text"] for part in index)
    for part in index:
        file, _, anchor = part["url"].partition("#")
        assert anchor in pages[file].ids, part["url"]

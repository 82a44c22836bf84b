"""Installs every package offline into a clean directory, and speaks MCP with it.

    scripts/test_packages.sh dist
"""

from __future__ import annotations

import json
import os
import pathlib
import plistlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import jsonschema
import pytest

DIST = pathlib.Path(os.environ.get("ONETOOL_DIST", "dist")).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent


def only(pattern: str) -> pathlib.Path:
    found = sorted(DIST.glob(pattern))
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


@pytest.fixture
def clean(tmp_path):
    """An environment with its own home and no network: the package must contain everything that it needs."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    nowhere = "http://127.0.0.1:9"
    return {
        **kept,
        "HOME": str(home),
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path / "uv-cache"),
        "UV_TOOL_DIR": str(tmp_path / "uv-tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_PYTHON_DOWNLOADS": "never",
        "npm_config_offline": "true",
        "npm_config_cache": str(tmp_path / "npm-cache"),
        "npm_config_registry": nowhere,
        "npm_config_update_notifier": "false",
        "PIP_NO_INDEX": "1",
        "http_proxy": nowhere,
        "https_proxy": nowhere,
    }


def talk(command: list, environment: dict, folder: pathlib.Path) -> None:
    """A real conversation: initialize, then run("1+1")."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def ask(number: int, method: str, params: dict) -> dict:
        send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            message = json.loads(line)
            if message.get("id") == number:
                assert "result" in message, message
                return message["result"]

    def send(message: dict) -> None:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()

    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    try:
        assert ask(1, "initialize", client)["serverInfo"]["name"] == "onetool"
        send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        result = ask(2, "tools/call", {"name": "run", "arguments": {"command": "1+1"}})
        assert result["content"][0]["text"] == "2", result
    finally:
        process.stdin.close()
        assert process.wait(timeout=30) == 0
        process.stdout.close()
        process.stderr.close()


def origin(command: list, environment: dict) -> str:
    said = subprocess.run([*command, "self", "version", "--json"], env=environment, check=True, capture_output=True, text=True)
    return json.loads(said.stdout)["installed_by"]


def run(command: list, environment: dict, **options) -> subprocess.CompletedProcess:
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True, **options)
    return done


def must(command: list, environment: dict, **options) -> str:
    done = run(command, environment, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_with_uv(clean, tmp_path):
    wheel = only("*.whl")
    must(["uv", "tool", "install", wheel], clean)
    program = tmp_path / "bin/onetool"
    talk([program, "serve"], clean, tmp_path)
    assert origin([program], clean) == "uv (Python package)"
    # And without installing it.
    talk(["uvx", "--from", wheel, "onetool", "serve"], clean, tmp_path)


def test_wheel_with_pip(clean, tmp_path):
    must([sys.executable, "-m", "venv", tmp_path / "venv"], clean)
    must([tmp_path / "venv/bin/python", "-m", "pip", "install", only("*.whl")], clean)
    program = tmp_path / "venv/bin/onetool"
    talk([program, "serve"], clean, tmp_path)
    assert origin([program], clean) == "pip (Python package)"
    must([tmp_path / "venv/bin/python", "-m", "pip", "uninstall", "-y", "onetool"], clean)
    assert not program.exists()


def test_wheel_is_what_its_name_says():
    wheel = only("*.whl")
    platform = wheel.stem.split("-")[-1]
    with zipfile.ZipFile(wheel) as archive:
        info = next(name for name in archive.namelist() if name.endswith("/WHEEL"))
        assert f"Tag: py3-none-{platform}\n" in archive.read(info).decode()
        recorded = archive.read(info.replace("WHEEL", "RECORD")).decode().splitlines()
        assert {line.split(",")[0] for line in recorded} == set(archive.namelist())
        program = next(name for name in archive.namelist() if "/scripts/" in name)
        needed = {tuple(map(int, v)) for v in re.findall(rb"GLIBC_(\d+)\.(\d+)", archive.read(program))}
    promised = re.search(r"manylinux_(\d+)_(\d+)_", platform)
    assert promised is None or max(needed) <= (int(promised[1]), int(promised[2]))


@pytest.fixture
def npm(clean, tmp_path):
    """Both npm packages, installed into a project."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text("{}")
    tarballs = [only("npm/onetool-[0-9]*.tgz"), *DIST.glob("npm/onetool-linux-*.tgz"), *DIST.glob("npm/onetool-darwin-*.tgz")]
    done = run(["npm", "install", "--no-audit", "--no-fund", *tarballs], clean, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    return project


needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")


@needs_npm
def test_npm(clean, npm):
    program = npm / "node_modules/.bin/onetool"
    talk([program, "serve"], clean, npm)
    assert origin([program], clean) == "npm"
    # The shim passes on the exit status of the program.
    assert run([program, "run", "1/0"], clean, cwd=npm).returncode == 1
    assert run([program, "no-such-command"], clean, cwd=npm).returncode == 2


@needs_npm
def test_npm_names_what_is_missing(clean, npm):
    program = npm / "node_modules/.bin/onetool"
    (platform,) = (npm / "node_modules/@onetool").iterdir()
    hidden = npm / "hidden"
    platform.rename(hidden)
    missing = run([program, "--version"], clean)
    assert missing.returncode == 1
    assert f"@onetool/{platform.name} is not installed" in missing.stderr and "npm install @onetool/" in missing.stderr
    named = run([program, "--version"], {**clean, "ONETOOL_BINARY": str(hidden / "bin/onetool")})
    assert named.returncode == 0 and named.stdout.startswith("onetool ")
    wrong = run([program, "--version"], {**clean, "ONETOOL_BINARY": "/no/such/file"})
    assert wrong.returncode == 1 and "/no/such/file, which does not exist" in wrong.stderr
    shim = npm / "node_modules/onetool/bin/onetool.js"
    other = "Object.defineProperty(process, 'arch', {value: 'mips'}); require(process.argv[1])"
    unknown = run(["node", "-e", other, shim], clean)
    assert unknown.returncode == 1 and "no package for linux-mips" in unknown.stderr, unknown.stderr


def test_archive(clean, tmp_path):
    with tarfile.open(only("onetool-*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (top,) = tmp_path.glob("onetool-*")
    talk([top / "bin/onetool", "serve"], clean, tmp_path)
    assert origin([top / "bin/onetool"], clean) == "an archive"
    pages = sorted(path.name for path in (top / "share/man/man1").iterdir())
    assert {"onetool.1", "onetool-run.1", "onetool-packs-add.1"} <= set(pages)
    for page in (top / "share/man/man1").iterdir():
        text = page.read_text()
        assert text.startswith(".TH ") and ".SH NAME" in text and ".SH SYNOPSIS" in text, page
    if shutil.which("man"):
        shown = must(["man", "--warnings", "-l", top / "share/man/man1/onetool-run.1"], {**clean, "MANWIDTH": "100"})
        assert "onetool-run" in shown and "OPTIONS" in shown
    must(["bash", "-n", top / "share/bash-completion/completions/onetool"], clean)


def test_mcp_bundle(clean, tmp_path):
    bundle = tmp_path / "bundle"
    with zipfile.ZipFile(only("*.mcpb")) as archive:
        for entry in archive.infolist():
            path = archive.extract(entry, bundle)
            os.chmod(path, entry.external_attr >> 16 & 0o777)
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["server"]["type"] == "binary" and (bundle / manifest["server"]["entry_point"]).is_file()
    project = tmp_path / "project"
    (project / ".onetool").mkdir(parents=True)
    (project / ".onetool/onetool.yaml").write_text("")
    config = manifest["server"]["mcp_config"]
    fill = lambda text: text.replace("${__dirname}", str(bundle)).replace("${user_config.folder}", str(project))
    talk([fill(config["command"]), *map(fill, config["args"])], clean, tmp_path)
    assert origin([fill(config["command"])], clean) == "an MCP bundle"


def test_the_registry_entry_has_the_known_fields():
    """Validates against our own schema: the registry's is not available without a network."""
    schema = json.loads((ROOT / "packaging/server.schema.json").read_text())
    entry = json.loads((DIST / "server.json").read_text())
    check = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    assert [error.message for error in check.iter_errors(entry)] == []
    # A schema that accepts anything would prove nothing.
    for change in ({"name": "no slash"}, {"version": "latest"}, {"packages": []}, {"surprise": 1}, {"description": "x" * 101}):
        assert not check.is_valid({**entry, **change}), change
    package = entry["packages"][0]
    for change in ({"registryType": "pip"}, {"transport": {"type": "pigeon"}}, {"version": "latest"}, {"runtimeHint": "sh"}):
        assert not check.is_valid({**entry, "packages": [{**package, **change}]}), change


def test_versions_agree():
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    entry = json.loads((DIST / "server.json").read_text())
    assert {entry["version"], *(package["version"] for package in entry["packages"])} == {version}
    assert re.fullmatch(r"[a-z0-9.-]+/[a-z0-9._-]+", entry["name"]) and len(entry["description"]) <= 100
    with tarfile.open(only("npm/onetool-[0-9]*.tgz")) as archive:
        package = json.load(archive.extractfile("package/package.json"))
    assert {package["version"], *package["optionalDependencies"].values()} == {version}
    assert package["mcpName"] == entry["name"]
    with zipfile.ZipFile(only("*.whl")) as archive:
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith("METADATA"))).decode()
    assert f"\nVersion: {version}\n" in metadata and f"mcp-name: {entry['name']}" in metadata


def test_sums():
    listed = (DIST / "SHA256SUMS").read_text().splitlines()
    assert len(listed) >= 6
    if shutil.which("sha256sum"):
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=DIST, check=True)


def test_container():
    text = (DIST / "container/Dockerfile").read_text()
    instructions = [line.split()[0] for line in re.sub(r"\\\n", " ", text).splitlines() if line and line[0].isupper()]
    assert instructions[0] == "FROM" and instructions[-2:] == ["ENTRYPOINT", "CMD"]
    assert re.search(r"^USER (?!0$|root$)\S+", text, re.M), "it does not run as root"
    assert instructions.index("USER") < instructions.index("ENTRYPOINT") and "HEALTHCHECK" in instructions
    assert os.access(DIST / "container/onetool", os.X_OK)
    if shutil.which("docker") and subprocess.run(["docker", "info"], capture_output=True).returncode == 0:
        subprocess.run(["docker", "build", "-t", "onetool-test", DIST / "container"], check=True)


def test_the_health_check_of_the_container(clean, tmp_path):
    """Runs the container's command and its health check without a container."""
    text = re.sub(r"\\\n", " ", (DIST / "container/Dockerfile").read_text())
    check = json.loads(re.search(r"^HEALTHCHECK .*? CMD (\[.*\])$", text, re.M)[1])
    command = json.loads(re.search(r"^CMD (\[.*\])$", text, re.M)[1])
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool/onetool.yaml").write_text("server: {tokens: [{token: a-token-for-a-test, scopes: [read]}]}\n")
    command = [part.replace("0.0.0.0:8765", "127.0.0.1:0") for part in command]
    server = subprocess.Popen(
        [DIST / "container/onetool", *command], cwd=tmp_path, env=clean, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        address = None
        for line in server.stderr:
            if found := re.search(r"http://(127\.0\.0\.1:\d+)", line):
                address = found[1]
                break
        assert address, "the server says where it is"
        here = {**clean, "http_proxy": "", "no_proxy": "*"}
        must([part.replace("127.0.0.1:8765", address) for part in check], here)
    finally:
        server.terminate()
        server.wait(timeout=30)
        server.stderr.close()
        server.stdout.close()


def test_services_are_valid():
    plist = plistlib.loads((ROOT / "packaging/launchd/onetool.plist").read_bytes())
    assert plist["ProgramArguments"][1:] == ["serve", "--http"]
    unit = (ROOT / "packaging/systemd/onetool.service").read_text()
    assert "ExecStart=%h/.local/bin/onetool serve --http\n" in unit
    if shutil.which("systemd-analyze"):
        subprocess.run(["systemd-analyze", "verify", "--user", "--recursive-errors=no", ROOT / "packaging/systemd/onetool.service"])

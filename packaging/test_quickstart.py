"""Runs the quick start, command by command: only the wheel is installed, and three clients configure six servers.

    scripts/test_quickstart.sh

The servers are real ones from npm and PyPI, so this needs those registries, `uv` and `npm`.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from test_packages import must, only, talk

ROOT = pathlib.Path(__file__).resolve().parent.parent

npx = lambda package, *more: {"command": "npx", "args": ["-y", f"@modelcontextprotocol/{package}", *more]}
CLIENTS = {
    "home/.cursor/mcp.json": {"mcpServers": {"everything": npx("server-everything"), "files": npx("server-filesystem", ".")}},
    "home/.config/Claude/claude_desktop_config.json": {
        "mcpServers": {"clock": {"command": "uvx", "args": ["mcp-server-time"]}, "memory": npx("server-memory")}
    },
    "project/.vscode/mcp.json": {
        "servers": {"fetch": {"command": "uvx", "args": ["mcp-server-fetch"]}, "thinking": npx("server-sequential-thinking")}
    },
}
# Maximum duration of the whole test, in seconds. It only stops a test that hangs.
PATIENCE = 1500
SERVERS = ["clock", "everything", "fetch", "files", "memory", "thinking"]


def commands() -> list[str]:
    """Returns the first block of commands in the quick start, without their comments."""
    text = (ROOT / "docs/quickstart.md").read_text()
    block = re.search(r"```sh\n(.*?)```", text, re.S)[1]
    return [line.split("  #")[0].strip() for line in block.splitlines() if line.strip()]


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_quickstart(tmp_path):
    for path, content in CLIENTS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(json.dumps(content))
    project = tmp_path / "project"
    home = pathlib.Path.home()
    deadline = time.monotonic() + PATIENCE
    # The caches of uv and npm and the registry settings are the machine's; everything else is new. Servers are started
    # without these variables, so the caches are also linked from their default locations.
    caches = {
        ".cache/uv": pathlib.Path(os.environ.get("UV_CACHE_DIR", home / ".cache/uv")),
        ".npm": pathlib.Path(os.environ.get("npm_config_cache", home / ".npm")),
    }
    for name, cache in caches.items():
        cache.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "home" / name).symlink_to(cache)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "UV_TOOL_DIR": str(tmp_path / "tools"),
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "UV_CACHE_DIR": str(caches[".cache/uv"]),
        "UV_PYTHON_INSTALL_DIR": os.environ.get("UV_PYTHON_INSTALL_DIR", str(home / ".local/share/uv/python")),
        "npm_config_cache": str(caches[".npm"]),
    }
    for name in ("ONETOOL_PROJECT", "ONETOOL_CONFIG", "XDG_CONFIG_HOME"):
        environment.pop(name, None)
    for name in (".npmrc", ".config/uv/uv.toml"):
        if (home / name).is_file():
            (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(home / name, tmp_path / "home" / name)
    # The speed of the registries is not tested: every package is fetched once before.
    for content in CLIENTS.values():
        for server in next(iter(content.values())).values():
            command = [server["command"], *server["args"]]
            left = deadline - time.monotonic()
            subprocess.run(command, cwd=project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=left)
    shown = commands()
    assert len(shown) <= 5 and shown[0] == "uv tool install onetool", shown
    said = {}
    for command in shown:
        command = command.replace("uv tool install onetool", f"uv tool install {only('*.whl')}")
        # On a busy machine, six servers at once may exceed any sensible limit: test them until all are connected.
        while True:
            left = deadline - time.monotonic()
            done = subprocess.run(command, shell=True, cwd=project, env=environment, capture_output=True, text=True, timeout=left)
            if done.returncode == 0 or command != "onetool servers test" or time.monotonic() > deadline - 300:
                break
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        said[command.split("'")[0].strip()] = done.stdout
    tested = said["onetool servers test"]
    for server in SERVERS:
        assert re.search(rf"^{server} +stdio +connected +[1-9]", tested, re.M), tested
    for server in SERVERS:
        assert re.search(rf"\b{server}\b", said["onetool run"]), said["onetool run"]
    # The client is connected: the command in its file starts a server that answers, with all six behind it.
    entry = json.loads((tmp_path / "home/.cursor/mcp.json").read_text())["mcpServers"]
    assert list(entry) == ["onetool"], entry
    talk([entry["onetool"]["command"], *entry["onetool"]["args"]], environment, tmp_path)
    # On a busy machine, a server may take longer to start than a run waits for it; the next run finds it started.
    call = ["onetool", "run", "clock.get_current_time(timezone='Europe/Zurich')['timezone']"]
    while True:
        done = subprocess.run(call, cwd=project, env=environment, capture_output=True, text=True, timeout=300)
        if done.returncode == 0 or "was not ready within" not in done.stderr or time.monotonic() > deadline - 300:
            break
    assert done.stdout.strip() == "Europe/Zurich", done.stdout + done.stderr
    # Undo it again.
    must(["onetool", "export", "--client", "cursor", "--write"], environment, cwd=project)
    assert json.loads((tmp_path / "home/.cursor/mcp.json").read_text()) == CLIENTS["home/.cursor/mcp.json"]

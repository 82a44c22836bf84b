"""A pack under test runs as it does in OneTool: in the environment of its own header, behind the real worker host."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


_wire = types.ModuleType("wire")
_worker_folder = sorted((ROOT / "crates").glob("*/src/**/worker_host.py"))[0].parent
_HOST = "\n".join((_worker_folder / name).read_text() for name in ("wire.py", "offered.py", "worker_host.py"))
exec((_worker_folder / "wire.py").read_text(), _wire.__dict__)

_interpreters: dict[str, str] = {}


class ToolFailed(Exception):
    """A call that raised: `kind` is the exception's type."""

    def __init__(self, kind: str, message: str):
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message


def _interpreter(file: pathlib.Path) -> str:
    if str(file) not in _interpreters:
        subprocess.run(["uv", "sync", "--quiet", "--script", str(file)], check=True, cwd="/")
        found = subprocess.run(
            ["uv", "python", "find", "--script", str(file)], check=True, cwd="/", capture_output=True, text=True
        )
        _interpreters[str(file)] = found.stdout.strip().splitlines()[-1]
    return _interpreters[str(file)]


class Worker:
    """One pack in its own process. `pack.function(**arguments)` calls it."""

    def __init__(self, name: str, folder: pathlib.Path, secrets: dict[str, str], config: dict[str, dict]):
        self._file = ROOT / "packs" / name / f"{name}_tools.py"
        self._secrets, self._config, self._next, self._folder = secrets, config, 0, folder
        self.progress: list[dict] = []
        command = [_interpreter(self._file), "-I", "-X", "utf8", "-c", _HOST]
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        functions = _exported(self._file)
        limits = {"RLIMIT_DATA": 4 << 30}
        start = {"pack": name, "max_message": 64 << 20, "limits": limits, "file": str(self._file), "functions": functions}
        self._request("start", start)

    def __getattr__(self, function: str):
        if function.startswith("_"):
            raise AttributeError(function)
        return lambda **named: self.call(function, **named)

    def call(self, function: str, /, **named):
        wired = {name: _wire.to_wire(value) for name, value in named.items()}
        result = self._request("call", {"function": function, "positional": [], "named": wired})
        return result

    def _request(self, method: str, params: dict):
        self._next += 1
        self._write({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        while True:
            line = self._process.stdout.readline()
            assert line, "the worker ended"
            message = _wire._decode(line.decode())
            if message.get("method"):
                self._serve(message)
            elif message.get("id") == self._next:
                if message.get("error"):
                    data = message["error"]["data"]
                    raise ToolFailed(data["type"], data["message"])
                return message["result"]

    def _serve(self, message: dict):
        method, params = message["method"], message["params"]
        if method == "progress":
            self.progress.append(params)
        if "id" not in message:
            return
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if method == "get_secret":
            reply["result"] = self._secrets.get(params["name"])
        elif method == "resolve_path":
            try:
                reply["result"] = str(self._resolved(params["path"], params["write"]))
            except (PermissionError, ValueError) as error:
                kind = type(error).__name__
                reply["error"] = {"code": -32000, "message": str(error), "data": {"type": kind, "message": str(error)}}
        else:
            assert method == "get_config", method
            reply["result"] = self._config.get(params["pack"], {}).get(params["key"])
        self._write(reply)

    def _resolved(self, path: str, write: bool) -> pathlib.Path:
        """The rules of the pack `file`, as far as these tests need them."""
        if "\0" in path or not path:
            raise ValueError("the path is empty or contains a zero byte")
        roots = self._config.get("file", {}).get("roots", ["."])
        roots = [(self._folder / root).resolve() for root in roots]
        full = (roots[0] / path).resolve()
        root = next((root for root in roots if full == root or root in full.parents), None)
        if root is None:
            allowed = ", ".join(map(str, roots))
            raise PermissionError(f"{path} is outside the folders that tools may use\nhint: allowed: {allowed}")
        below = full.relative_to(root).parts
        if ".onetool" in below and full.name == "secrets.yaml":
            raise PermissionError(f"{path} holds secrets; tools may not use it")
        if write and (".git" in below or ".onetool" in below):
            raise PermissionError(f"{path} is protected: it governs what tools may do")
        return full

    def _write(self, message: dict):
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def close(self):
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._process.stdout.close()


def _exported(file: pathlib.Path) -> list[str]:
    import ast

    for statement in ast.parse(file.read_text()).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            return ast.literal_eval(statement.value)
    raise AssertionError(f"{file} has no __all__")


@pytest.fixture
def start(tmp_path):
    """Starts a pack in a folder of its own: `start("db", secrets={…}, config={"db": {…}})`."""
    running: list[Worker] = []

    def begin(name: str, secrets: dict | None = None, config: dict | None = None) -> Worker:
        running.append(Worker(name, tmp_path, secrets or {}, config or {}))
        return running[-1]

    yield begin
    for worker in running:
        worker.close()


@pytest.fixture
def failed():
    """`failed("ValueError", "part of the message", function, **arguments)`."""

    def check(kind: str, part: str, function, **named) -> str:
        with pytest.raises(ToolFailed) as raised:
            function(**named)
        assert raised.value.kind == kind, str(raised.value)
        assert part in raised.value.message, raised.value.message
        return raised.value.message

    return check


sys.dont_write_bytecode = True

"""The servers that are measured: our binary in its own project, and FastMCP; each with its way to run code."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stdio_client import Reply, ServerProblem, StdioClient

SERVERS = Path(__file__).resolve().parent / "servers"


class Project:
    """A temporary folder with a configuration and its own home folder."""

    def __init__(self, configuration: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="onetool-bench-"))
        self.write(".onetool/onetool.yaml", configuration)
        (self.folder / "home").mkdir()

    def __enter__(self) -> "Project":
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, path: str, text: str) -> Path:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def environment(self) -> dict[str, str]:
        """Returns our environment with another home folder, without variables that select the user's configuration."""
        environment = {key: value for key, value in os.environ.items() if key not in ("ONETOOL_CONFIG", "OT_SECRETS_FILE")}
        environment.setdefault("UV_CACHE_DIR", str(Path.home() / ".cache/uv"))
        environment.setdefault("UV_PYTHON_INSTALL_DIR", str(Path.home() / ".local/share/uv/python"))
        environment["HOME"] = str(self.folder / "home")
        return environment

    def serve(self, onetool: Path) -> StdioClient:
        return StdioClient([str(onetool), "serve"], cwd=self.folder, environment=self.environment())


def tool_files(project: Project, files: int, functions: int) -> None:
    """Writes `files` packs of `functions` tools each."""
    for number in range(files):
        pack = f"pack{number:03}"
        parts = [f'"""Generated tools, number {number}."""\n', f'pack = "{pack}"\n']
        parts += [TOOL.format(name=f"{VERBS[index % len(VERBS)]}_{NOUNS[number % len(NOUNS)]}_{index}") for index in range(functions)]
        project.write(f".onetool/tools/{pack}/{pack}_tools.py", "\n\n".join(parts))


VERBS = ["fetch", "list", "create", "update", "delete", "search", "merge", "export"]
NOUNS = ["invoice", "customer", "ticket", "branch", "sensor", "calendar", "message", "picture", "parcel", "account"]
TOOL = '''def {name}(text: str, count: int = 1, exact: bool = False) -> str:
    """Do {name} on a text and give what came of it.

    Args:
        text: What to work on.
        count: How often.
        exact: Whether nothing may be left out.

    Returns:
        The text, changed.
    """
    return text * count
'''


def python_server(name: str, *options: str) -> list[str]:
    """Returns the command of one of the servers in servers/, run by the environment's interpreter."""
    return [sys.executable, str(SERVERS / f"{name}.py"), *options]


def start_python_server(name: str, *options: str) -> StdioClient:
    return StdioClient(python_server(name, *options), cwd=SERVERS)


def run(client: StdioClient, code: str) -> Reply:
    """Runs code in our server."""
    return client.call("run", {"command": code})


def execute(client: StdioClient, code: str) -> Reply:
    """Runs code in FastMCP's code mode."""
    return client.call("execute", {"code": code})


def expect(reply: Reply, text: str) -> float:
    """Returns the milliseconds of a reply. The reply must contain `text`: a fast but wrong reply is an error."""
    if text not in reply.text:
        raise ServerProblem(f"expected {text!r} in the reply, got {reply.text[:300]!r}")
    return reply.milliseconds


@contextmanager
def onetool_in(onetool: Path, configuration: str = "") -> Iterator[StdioClient]:
    """Starts and initializes our server in a new project."""
    with Project(configuration) as project, project.serve(onetool) as client:
        client.initialize()
        yield client


@contextmanager
def peer(*options: str) -> Iterator[StdioClient]:
    """Starts and initializes FastMCP in code mode."""
    with start_python_server("fastmcp_code_mode", *options) as client:
        client.initialize()
        yield client

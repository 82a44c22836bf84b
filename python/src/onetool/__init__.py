"""The API that OneTool offers to tools: secrets, configuration, other tools, log and progress.

In a OneTool worker this module is replaced by the real one. Outside, in tests and in editors, it has the same names and
answers from a :class:`Host`, which the pytest fixture ``onetool_host`` provides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

__all__ = [
    "CallCancelled",
    "Host",
    "Image",
    "LogEntry",
    "ToolError",
    "call_tool",
    "call_tool_async",
    "get_config",
    "get_secret",
    "log",
    "progress",
    "resolve_path",
    "tool",
    "trace_headers",
    "worker_main",
]

_REQUIRED: Any = object()


class CallCancelled(KeyboardInterrupt):
    """The caller abandoned this call."""


class ToolError(RuntimeError):
    """A tool that was called with :func:`call_tool` failed."""


class Image:
    """An image as a result, or as part of one: the model sees it."""

    def __init__(self, data: bytes, media_type: str = "image/png") -> None:
        self.data = bytes(data)
        self.media_type = media_type


@dataclass
class LogEntry:
    """A log entry that a tool wrote."""

    message: str
    level: str
    fields: dict[str, Any]


@dataclass
class Host:
    """Replaces OneTool in tests: holds the answers for tools, and records what they report."""

    secrets: dict[str, str] = field(default_factory=dict)
    #: By pack and key.
    config: dict[tuple[str, str], Any] = field(default_factory=dict)
    #: Functions that replace other tools, by full name.
    tools: dict[str, Callable[..., Any]] = field(default_factory=dict)
    logged: list[LogEntry] = field(default_factory=list)
    #: Done, total and message of each report.
    progress: list[tuple[float, float | None, str | None]] = field(default_factory=list)
    #: Returned by `trace_headers`.
    trace: dict[str, str] = field(default_factory=dict)


_host: ContextVar[Host | None] = ContextVar("onetool_host", default=None)


def _current() -> Host:
    host = _host.get()
    if host is None:
        raise RuntimeError(
            "OneTool is not running this code; in a test, use the fixture onetool_host of the package onetool"
        )
    return host


def get_secret(name: str, default: Any = _REQUIRED) -> Any:
    """Returns a secret that the file lists in ``[tool.onetool] secrets``; if it is not set, ``default`` or an error."""
    value = _current().secrets.get(name)
    if value is None and default is _REQUIRED:
        raise LookupError(f"the secret '{name}' is not set; add `{name}: value` to secrets.yaml")
    return default if value is None else value


def get_config(pack: str, key: str | None = None, default: Any = None) -> Any:
    """Returns a value of the configuration: ``tools.<pack>.<key>``. Also accepts a single name, ``pack.key``."""
    if key is None:
        pack, _, key = pack.partition(".")
    return _current().config.get((pack, key), default)


def call_tool(name: str, /, **named: Any) -> Any:
    """Calls another tool, ``pack.function``, and returns its result."""
    tool = _current().tools.get(name)
    if tool is None:
        raise AttributeError(f"no tool '{name}'; give the test's host one: onetool_host.tools['{name}'] = ...")
    return tool(**named)


async def call_tool_async(name: str, /, **named: Any) -> Any:
    """Like :func:`call_tool`, without blocking the event loop."""
    result = call_tool(name, **named)
    return await result if hasattr(result, "__await__") else result


class _Logged:
    """The return value of :func:`log`: used with ``with``, it also logs the end and the time taken."""

    def __init__(self, message: str, level: str, fields: dict[str, Any]) -> None:
        self._message, self._level, self._fields, self._started = message, level, fields, time.monotonic()
        self._write(message)

    def _write(self, message: str) -> None:
        host = _host.get()
        if host is not None:
            host.logged.append(LogEntry(message, self._level, dict(self._fields)))

    def add(self, *pair: Any, **fields: Any) -> _Logged:
        if len(pair) == 2:
            self._fields[str(pair[0])] = pair[1]
        self._fields.update(fields)
        return self

    def __enter__(self) -> _Logged:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._fields["ms"] = int((time.monotonic() - self._started) * 1000)
        if error is not None:
            self._fields["error"] = error
        self._write(self._message + " (end)")
        return False


def log(*parts: Any, level: str = "info", **fields: Any) -> _Logged:
    """Writes to OneTool's log."""
    return _Logged(" ".join(map(str, parts)), level, fields)


def progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Reports the progress of the work to the caller."""
    host = _host.get()
    if host is not None:
        host.progress.append((float(done), None if total is None else float(total), message))


def trace_headers() -> dict[str, str]:
    """Returns the trace that the call is part of, as headers for requests made for it; empty if there is none."""
    return dict(_current().trace)


def resolve_path(path: str | Path, write: bool = False) -> Path:
    """Resolves a caller's path to an absolute one. In a worker the rules of the pack ``file`` apply; here the path must
    lie below the working directory."""
    root = Path.cwd().resolve()
    full = (root / path).resolve()
    if full != root and root not in full.parents:
        raise PermissionError(f"{path} is outside the folders that tools may use\nhint: allowed: {root}")
    return full


_Function = TypeVar("_Function", bound=Callable[..., Any])


@overload
def tool(function: _Function) -> _Function: ...
@overload
def tool(*, read_only: bool = False, idempotent: bool = False) -> Callable[[_Function], _Function]: ...
def tool(function: Any = None, *, read_only: bool = False, idempotent: bool = False) -> Any:
    """Declares that calls of a function change nothing, or that a second call changes nothing more: a call that was in
    flight when a server died is then repeated automatically. The file is parsed for it, so write a literal True."""
    return function if function is not None else lambda function: function


def worker_main() -> None:
    """Does nothing: OneTool serves the calls. Exists for files that end with their own loop."""

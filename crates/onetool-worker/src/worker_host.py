# The worker host: imports one tool file and serves calls to it, JSON-RPC 2.0, one JSON object a line.
#
# The channel is the standard input and output that the process was started with, moved to private descriptors before
# anything else runs. Standard input then reads nothing and standard output goes where standard error goes, so whatever
# the tool prints, reads or closes cannot disturb the channel.
#
# Three threads: the reader (takes messages, never runs a tool), the main thread (runs plain functions, one at a time)
# and, where the file has `async def` functions, an event loop. When the channel ends, the process group ends.

import inspect
import os
import queue
import signal
import sys
import threading
import time

_EXIT_GRACE = 1.0
_MAX_TEXT = 8000
_MAX_FRAMES = 20
_HOST_FILE = (lambda: 0).__code__.co_filename


def _private(descriptor):
    try:
        import fcntl

        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 200)
    except (ImportError, OSError):
        return os.dup(descriptor)


_source, _sink = _private(0), _private(1)
_null = os.open(os.devnull, os.O_RDONLY)
os.dup2(_null, 0)
os.close(_null)
os.dup2(2, 1)
for _stream in (sys.stdout, sys.stderr):
    if _stream is not None and hasattr(_stream, "reconfigure"):
        _stream.reconfigure(line_buffering=True, errors="backslashreplace")


class CallCancelled(KeyboardInterrupt):
    """The caller gave this call up."""


class ToolError(RuntimeError):
    """A tool that was called with call_tool failed."""


_main = threading.main_thread()
_queue = queue.SimpleQueue()
_write_lock = threading.Lock()
_functions = {}
_coercers = {}
_waiting = {}
_counter = iter(range(1, sys.maxsize)).__next__
_active = set()
_tasks = {}
_loop = None
_pack = ""
_limit = 64 << 20
_forked = False
_running = None  # the id of the call on the main thread
_interrupt = None  # the id of the call on the main thread that is to be interrupted
_sending = False  # whether the main thread is in the middle of a message
_cancelled = set()  # ids of queued calls that were given up before they began
_local = threading.local()


# ---- the channel ----------------------------------------------------------------------------------------------------


def _send(data):
    global _sending
    on_main = threading.current_thread() is _main
    if on_main:
        _sending = True
    try:
        with _write_lock:
            if _forked:
                os._exit(0)
            view = memoryview(data)
            while view:
                view = view[os.write(_sink, view) :]
    finally:
        if on_main:
            _sending = False
    if on_main:
        _raise_if_interrupted()


def _line(message):
    return _encode(message).encode("utf-8", "replace") + b"\n"


def _notify(method, params):
    _send(_line({"jsonrpc": "2.0", "method": method, "params": params}))


def _answer(call_id, result):
    return b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (call_id, _encode(result).encode("utf-8", "replace"))


def _post(method, params, take):
    """Sends a request; `take` gets the response, on the reader thread."""
    if _forked:
        raise RuntimeError("onetool is not available in a forked process")
    request = "w%d" % _counter()
    _waiting[request] = take
    _send(_line({"jsonrpc": "2.0", "id": request, "method": method, "params": params}))


def _request(method, params):
    box = queue.SimpleQueue()
    _post(method, params, box.put)
    return _unpack(box.get())


def _unpack(response):
    error = response.get("error")
    if error is None:
        return response.get("result")
    data = error.get("data") or {}
    raise _exception(data.get("type") or "ToolError", error.get("message") or "the call failed")


def _exception(name, message):
    import builtins

    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except Exception:
            pass
    kind = ToolError if name == "ToolError" or not name.isidentifier() else type(name, (ToolError,), {})
    return kind(message)


def _read_forever():
    rest = []
    while True:
        try:
            chunk = os.read(_source, 1 << 16)
        except OSError:
            chunk = b""
        if not chunk:
            _queue.put(None)
            time.sleep(_EXIT_GRACE)
            _end()
        if b"\n" not in chunk:
            rest.append(chunk)
            continue
        lines = chunk.split(b"\n")
        rest.append(lines[0])
        lines[0] = b"".join(rest)
        rest = [lines.pop()]
        for line in lines:
            try:
                _take(line)
            except Exception as error:
                _refuse(line, error)


def _refuse(line, error):
    """A message whose values Python cannot hold (a date in the year 10000): whoever waits for it must know."""
    error = ValueError("a value could not be read: %s" % error)
    message = json.loads(line)
    if message.get("method") is not None:
        _active.discard(message.get("id"))
        _send(_failure(message["id"], error))
    else:
        take = _waiting.pop(message.get("id"), None)
        if take is not None:
            take({"error": {"message": str(error), "data": {"type": "ValueError"}}})


def _take(line):
    message = _decode(line.decode("utf-8"))
    method = message.get("method")
    if method is None:
        take = _waiting.pop(message.get("id"), None)
        if take is not None:
            take(message)
    elif method == "call":
        _active.add(message["id"])
        function = _functions.get(message["params"]["function"])
        if function is not None and _loop is not None and inspect.iscoroutinefunction(function):
            _loop.call_soon_threadsafe(_spawn, message)
        else:
            _queue.put(message)
    elif method == "cancel":
        _cancel(message["params"]["id"])
    elif method == "start":
        _queue.put(message)


def _end():
    """Ends the process and everything that it started."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


def _after_fork():
    global _forked
    _forked = True
    for descriptor in (_source, _sink):
        try:
            os.close(descriptor)
        except OSError:
            pass


# ---- calls ----------------------------------------------------------------------------------------------------------


def _raise_if_interrupted():
    global _interrupt
    if _interrupt is not None and _interrupt == _running:
        _interrupt = None
        raise CallCancelled("the call was cancelled")


def _on_interrupt(_signal, _frame):
    if not _sending:
        _raise_if_interrupted()


def _cancel(call_id):
    global _interrupt
    if call_id == _running:
        _interrupt = call_id
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(_main.ident, signal.SIGINT)
    elif _loop is not None and call_id in _active:
        _loop.call_soon_threadsafe(_cancel_task, call_id)
    if call_id in _active:
        _cancelled.add(call_id)


def _cancel_task(call_id):
    task = _tasks.get(call_id)
    if task is not None:
        task.cancel()


def _arguments(params, function):
    named = params.get("named") or {}
    for name, coerce in _coercers_of(params["function"], function).items():
        if name in named:
            named[name] = coerce(named[name])
    return params.get("positional") or (), named


def _lookup(params):
    function = _functions.get(params["function"])
    if function is None:
        raise AttributeError("pack '%s' has no function '%s'" % (_pack, params["function"]))
    return function


def _serve(message):
    global _running
    call_id, params = message["id"], message["params"]
    _local.call = call_id
    try:
        try:
            _running = call_id
            if call_id in _cancelled:
                raise CallCancelled("the call was cancelled")
            function = _lookup(params)
            positional, named = _arguments(params, function)
            value = function(*positional, **named)
            if inspect.isawaitable(value) or inspect.isasyncgen(value):
                value = _finish_on_loop(call_id, value)
            data = _answer(call_id, to_wire(value))
        finally:
            _running = None
    except BaseException as error:
        data = _failure(call_id, error)
    finally:
        _local.call = None
    _reply(call_id, data)


def _reply(call_id, data):
    if len(data) > _limit:
        text = "the result is larger than a worker may send (%d of %d bytes)" % (len(data), _limit)
        data = _failure(call_id, ValueError(text), "too_large")
    _active.discard(call_id)
    _cancelled.discard(call_id)
    _send(data)


def _failure(call_id, error, kind=None):
    if kind is None:
        kind = "cancelled" if isinstance(error, CallCancelled) or _is_cancelled(error) else "raised"
    try:
        message = str(error)
    except BaseException:
        message = "(the exception could not be shown)"
    if isinstance(error, SystemExit):
        message = "the tool called sys.exit(%s)" % message
    data = {
        "type": type(error).__name__,
        "message": message[:_MAX_TEXT],
        "traceback": _trace(error),
        "kind": kind,
    }
    body = {"code": -32000, "message": (data["type"] + ": " + data["message"])[:_MAX_TEXT], "data": data}
    return _line({"jsonrpc": "2.0", "id": call_id, "error": body})


def _is_cancelled(error):
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and isinstance(error, asyncio.CancelledError)


def _trace(error):
    """The traceback without the frames of this host."""
    try:
        import traceback

        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == _HOST_FILE:
            frames = frames.tb_next
        lines = traceback.format_exception(type(error), error, frames, limit=-_MAX_FRAMES)
        return "".join(lines)[-_MAX_TEXT:]
    except BaseException:
        return None


def _start_loop():
    global _loop, _call_variable
    if _loop is None:
        import asyncio
        import contextvars

        _call_variable = contextvars.ContextVar("onetool_call")
        _loop = asyncio.new_event_loop()
        threading.Thread(target=_loop.run_forever, name="onetool-loop", daemon=True).start()
    return _loop


_call_variable = None


def _spawn(message):
    task = _loop.create_task(_serve_async(message))
    _tasks[message["id"]] = task


async def _serve_async(message):
    call_id, params = message["id"], message["params"]
    _call_variable.set(call_id)
    try:
        function = _lookup(params)
        positional, named = _arguments(params, function)
        value = await _finish(function(*positional, **named))
        data = _answer(call_id, to_wire(value))
    except BaseException as error:
        data = _failure(call_id, error)
    finally:
        _tasks.pop(call_id, None)
    _reply(call_id, data)


async def _finish(value):
    if inspect.isasyncgen(value):
        return [item async for item in value]
    return await value


def _finish_on_loop(call_id, value):
    import asyncio

    loop = _start_loop()

    async def finish():
        _call_variable.set(call_id)
        return await _finish(value)

    future = asyncio.run_coroutine_threadsafe(finish(), loop)
    try:
        return future.result()
    except CallCancelled:
        future.cancel()
        raise


# ---- arguments that JSON has no type for ----------------------------------------------------------------------------

_PLAIN_TYPES = (str, int, float, bool, bytes, list, dict, tuple, set, object, None, type(None))
_PLAIN_NAMES = {"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set", "object", "None", "Any"}


def _coercers_of(name, function):
    found = _coercers.get(name)
    if found is None:
        found = {}
        annotations = getattr(function, "__annotations__", None) or {}
        if any(not (kind in _PLAIN_NAMES if isinstance(kind, str) else _is_plain(kind)) for kind in annotations.values()):
            try:
                import typing

                hints = typing.get_type_hints(function)
            except Exception:
                hints = {}
            hints.pop("return", None)
            for parameter, hint in hints.items():
                coerce = _coercer(hint)
                if coerce is not None:
                    found[parameter] = coerce
        _coercers[name] = found
    return found


def _is_plain(kind):
    return any(kind is plain for plain in _PLAIN_TYPES)


def _coercer(hint):
    """How text and dicts become what `hint` wants: paths, dates, enumerations, dataclasses, models."""
    import typing

    options = [option for option in typing.get_args(hint) if option is not type(None)]
    union = typing.get_origin(hint) is typing.Union or type(hint).__name__ == "UnionType"
    if union:
        return _coercer(options[0]) if len(options) == 1 else None
    if typing.get_origin(hint) is not None or not isinstance(hint, type):
        return None
    datetime, pathlib, enum = _module("datetime"), _module("pathlib"), _module("enum")
    if pathlib and issubclass(hint, pathlib.PurePath):
        return lambda value: hint(value) if isinstance(value, str) else value
    if datetime and hint in (datetime.datetime, datetime.date, datetime.time):
        return lambda value: hint.fromisoformat(value) if isinstance(value, str) else value
    if enum and issubclass(hint, enum.Enum):
        return lambda value: value if value is None or isinstance(value, hint) else hint(value)
    if hasattr(hint, "model_validate"):
        return lambda value: hint.model_validate(_as_dict(value)) if isinstance(value, (dict, Record)) else value
    if hasattr(hint, "__dataclass_fields__"):
        return lambda value: hint(**_as_dict(value)) if isinstance(value, (dict, Record)) else value
    return None


def _as_dict(value):
    return value if isinstance(value, dict) else dict(vars(value))


# ---- what the tool can import as `onetool` (or `ot_sdk`) --------------------------------------------------------------


def _current_call():
    if _call_variable is not None:
        call = _call_variable.get(None)
        if call is not None:
            return call
    call = getattr(_local, "call", None)
    if call is None and len(_active) == 1:
        call = next(iter(_active), None)  # a thread that the tool started
    return call


_REQUIRED = object()


def get_secret(name, default=_REQUIRED):
    """A secret that the file names in `[tool.onetool] secrets`; where it is not set, `default`, or an error."""
    value = _request("get_secret", {"name": str(name)})
    if value is None and default is _REQUIRED:
        raise LookupError("the secret '%s' is not set; add `%s: value` to secrets.yaml" % (name, name))
    return default if value is None else value


def get_config(pack, key=None, default=None):
    """A value of the configuration: `tools.<pack>.<key>`."""
    if key is None:
        pack, _, key = str(pack).partition(".")
    value = _request("get_config", {"pack": str(pack), "key": str(key)})
    return default if value is None else value


def _call_params(name, named):
    call = _current_call()
    if call is None:
        raise RuntimeError("call_tool works only while a call is served")
    return {"call": call, "name": str(name), "named": {key: to_wire(value) for key, value in named.items()}}


def call_tool(name, /, **named):
    """Calls another tool, `pack.function`, and gives its result. In `async def` prefer `await call_tool_async(...)`."""
    if _loop is not None and threading.current_thread().name == "onetool-loop" and str(name).startswith(_pack + "."):
        raise RuntimeError("call_tool('%s') would wait for itself: await call_tool_async, or call it directly" % name)
    return _request("call_tool", _call_params(name, named))


async def call_tool_async(name, /, **named):
    """As `call_tool`, without blocking the event loop."""
    import asyncio

    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def settle(response):
        if not future.done():
            future.set_result(response)

    _post("call_tool", _call_params(name, named), lambda response: loop.call_soon_threadsafe(settle, response))
    return _unpack(await future)


class _Logged:
    """What `log` gives back: used with `with`, it logs the end and the time taken as well."""

    def __init__(self, message, level, fields):
        self._message, self._level, self._fields, self._started = message, level, fields, time.monotonic()
        self._write(message)

    def _write(self, message):
        fields = {key: str(value)[:_MAX_TEXT] for key, value in self._fields.items()}
        _notify("log", {"level": self._level, "message": message[:_MAX_TEXT], "fields": fields})

    def add(self, *pair, **fields):
        if len(pair) == 2:
            self._fields[str(pair[0])] = pair[1]
        self._fields.update(fields)
        return self

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _trace):
        self._fields["ms"] = int((time.monotonic() - self._started) * 1000)
        if error is not None:
            self._fields["error"] = error
        self._write(self._message + " (end)")
        return False


def log(*parts, level="info", **fields):
    """Writes to OneTool's log."""
    return _Logged(" ".join(map(str, parts)), level, fields)


def progress(done, total=None, message=None):
    """Tells the caller how far the work is."""
    call = _current_call()
    if call is not None and not _forked:
        params = {"call": call, "done": float(done)}
        if total is not None:
            params["total"] = float(total)
        if message is not None:
            params["message"] = str(message)[:_MAX_TEXT]
        _notify("progress", params)


def resolve_path(path, write=False):
    """The absolute path of what a caller names, by the rules of the pack `file`: inside its roots, no secrets of OneTool,
    and for writing nothing below `.git` or `.onetool`. Links are followed first, so a link cannot lead out."""
    import pathlib

    if "\0" in str(path) or not str(path):
        raise ValueError("the path is empty or contains a zero byte")
    roots = get_config("file", "roots", ["."])
    roots = [pathlib.Path(root).expanduser().resolve() for root in ([roots] if isinstance(roots, str) else roots)]
    full = (roots[0] / pathlib.Path(path)).resolve()
    root = next((root for root in roots if full == root or root in full.parents), None)
    if root is None:
        allowed = ", ".join(map(str, roots))
        raise PermissionError("%s is outside the folders that tools may use\nhint: allowed: %s" % (path, allowed))
    whole = [part.lower() for part in full.parts]
    if ".onetool" in whole[:-1] and whole[-1] in ("secrets.yaml", "secrets.yml"):
        raise PermissionError("%s holds secrets; tools may not use it" % path)
    below = [part.lower() for part in full.relative_to(root).parts]
    if write and (".git" in below or ".onetool" in below):
        raise PermissionError("%s is protected; tools may not change it" % path)
    return full


def worker_main():
    """Does nothing: the worker host serves the calls. Here for files that end with their own loop."""


def _offer_module():
    offered = (get_secret, get_config, call_tool, call_tool_async, log, progress, resolve_path, worker_main)
    offered += (Image, ToolError, CallCancelled)
    for name in ("onetool", "ot_sdk"):
        module = types.ModuleType(name, "What a tool may ask of OneTool.")
        for item in offered:
            setattr(module, item.__name__, item)
        module.__all__ = [item.__name__ for item in offered]
        sys.modules[name] = module


# ---- start ----------------------------------------------------------------------------------------------------------


def _limit_resources(limits):
    try:
        import resource
    except ImportError:
        return
    limits = dict(limits, RLIMIT_CORE=0)
    for name, value in limits.items():
        number = getattr(resource, name, None)
        if number is None:
            continue
        hard = resource.getrlimit(number)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(number, (value, value))


def _import_file(path):
    """Imports the file as a module. Its own bytecode is not cached: two edits within a second must both be seen."""
    import importlib.util

    stem = os.path.splitext(os.path.basename(path))[0]
    folder = os.path.dirname(path)
    try:
        taken = not stem.isidentifier() or importlib.util.find_spec(stem) is not None
    except Exception:
        taken = True
    name = "onetool_pack_" + _pack if taken else stem
    sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)
    return module


def _start(message):
    global _pack, _limit
    params = message["params"]
    try:
        _pack, _limit = params["pack"], params["max_message"]
        _limit_resources(params["limits"])
        _offer_module()
        module = _import_file(params["file"])
        kinds = {}
        for name in params["functions"]:
            function = getattr(module, name, None)
            if callable(function):
                _functions[name] = function
                kinds[name] = "async" if inspect.iscoroutinefunction(function) else "sync"
        if "async" in kinds.values():
            _start_loop()
        data = _answer(message["id"], {"python": sys.version.split()[0], "functions": kinds})
    except BaseException as error:
        data = _failure(message["id"], error)
    _send(data)


def _host():
    signal.signal(signal.SIGINT, _on_interrupt)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
    threading.Thread(target=_read_forever, name="onetool-reader", daemon=True).start()
    message = _queue.get()
    while message is not None:
        if message["method"] == "start":
            _start(message)
        else:
            _serve(message)
        message = _queue.get()
    import atexit

    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass
    _end()


if __name__ == "__main__":
    _host()

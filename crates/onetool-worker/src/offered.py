# The parts of a call besides the channel: arguments in the types that functions declare, and the module `onetool` that
# a tool imports. Concatenated with worker_host.py, which comes after it.

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
    """Returns a function that converts text and dicts to `hint`: paths, dates, enumerations, dataclasses, models."""
    import typing

    options = [option for option in typing.get_args(hint) if option is not type(None)]
    union = typing.get_origin(hint) is typing.Union or type(hint).__name__ == "UnionType"
    if union:
        return _coercer(options[0]) if len(options) == 1 else None
    if typing.get_origin(hint) is not None:
        return _container_coercer(typing.get_origin(hint), options)
    if not isinstance(hint, type):
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
        return lambda value: _into_dataclass(hint, value) if isinstance(value, (dict, Record)) else value
    return None


def _container_coercer(kind, options):
    """Like `_coercer`, for every item of a list or every value of a dict."""
    if kind is list and len(options) == 1:
        item = _coercer(options[0])
        return item and (lambda value: [item(one) for one in value] if isinstance(value, list) else value)
    if kind is dict and len(options) == 2:
        item = _coercer(options[1])
        return item and (lambda value: {k: item(v) for k, v in value.items()} if isinstance(value, dict) else value)
    return None


_field_coercers = {}


def _into_dataclass(hint, value):
    fields = _field_coercers.get(hint)
    if fields is None:
        import typing

        try:
            hints = typing.get_type_hints(hint)
        except Exception:
            hints = {}
        found = {name: _coercer(kind) for name, kind in hints.items()}
        fields = _field_coercers[hint] = {name: coerce for name, coerce in found.items() if coerce is not None}
    return hint(**{name: fields[name](one) if name in fields else one for name, one in _as_dict(value).items()})


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
    """Returns a secret that the file lists in `[tool.onetool] secrets`. If it is not set: `default`, or an error."""
    value = _request("get_secret", {"name": str(name)})
    if value is None and default is _REQUIRED:
        raise LookupError("the secret '%s' is not set; add `%s: value` to secrets.yaml" % (name, name))
    return default if value is None else value


def get_config(pack, key=None, default=None):
    """Returns a value of the configuration: `tools.<pack>.<key>`."""
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
    """Calls another tool, `pack.function`, and returns its result. In `async def` prefer `await
    call_tool_async(...)`."""
    if _loop is not None and threading.current_thread().name == "onetool-loop" and str(name).startswith(_pack + "."):
        raise RuntimeError("call_tool('%s') would block the event loop: await call_tool_async, or call it directly" % name)
    return _request("call_tool", _call_params(name, named))


async def call_tool_async(name, /, **named):
    """Like `call_tool`, without blocking the event loop."""
    import asyncio

    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def settle(response):
        if not future.done():
            future.set_result(response)

    _post("call_tool", _call_params(name, named), lambda response: loop.call_soon_threadsafe(settle, response))
    return _unpack(await future)


class _Logged:
    """The return value of `log`: used with `with`, it also logs the end and the time taken."""

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
    """Reports the progress of the work to the caller."""
    call = _current_call()
    if call is not None and not _forked:
        params = {"call": call, "done": float(done)}
        if total is not None:
            params["total"] = float(total)
        if message is not None:
            params["message"] = str(message)[:_MAX_TEXT]
        _notify("progress", params)


def trace_headers():
    """Returns the trace that the call is part of, as headers for requests made for it; empty if there is none."""
    return dict(_traces.get(_current_call()) or {})


def resolve_path(path, write=False):
    """Resolves a caller's path to an absolute one, by the rules of the pack `file`: inside its roots, nothing that
    holds secrets, and for writing nothing that governs OneTool or lies below `.git`. Links are followed first."""
    import pathlib

    return pathlib.Path(_request("resolve_path", {"path": str(path), "write": bool(write)}))


def tool(function=None, *, read_only=False, idempotent=False):
    """Declares that calls of a function change nothing, or that a second call changes nothing more: a call that was in
    flight when a server died is then repeated automatically. The file is parsed for it, so write a literal True."""
    return function if function is not None else lambda function: function


def worker_main():
    """Does nothing: the worker host serves the calls. Exists for files that end with their own loop."""


def _offer_module():
    offered = (get_secret, get_config, call_tool, call_tool_async, log, progress, resolve_path, trace_headers, worker_main)
    offered += (tool, Image, ToolError, CallCancelled)
    for name in ("onetool", "ot_sdk"):
        module = types.ModuleType(name, "What a tool may ask of OneTool.")
        for item in offered:
            setattr(module, item.__name__, item)
        module.__all__ = [item.__name__ for item in offered]
        sys.modules[name] = module

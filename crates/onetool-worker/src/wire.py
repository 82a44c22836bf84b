# Lossless conversion of values to JSON: the Python side of `onetool_sdk::Value::to_wire`.
#
# Plain JSON is written as it is; everything else as {"$ot": type, "v": content}. Types of libraries that may not be
# installed (numpy, pandas, pydantic, PIL) are recognised by their shape, so that nothing is imported for them.
# `cases/wire/vectors.json` shows the format by example.

import base64
import json
import math
import sys
import threading
import types

_TAG = "$ot"
_MAX_DEPTH = 110  # the reader at the other end allows 128 levels, and the envelope takes some
_MAX_REPR = 2000
_PLAIN = frozenset((str, bool, type(None)))
_NUMBERS = frozenset((int, float, str, bool, type(None)))
_LOW, _HIGH = -(2**63), 2**63


class Image:
    """An image as a result: the model sees it."""

    def __init__(self, data, media_type="image/png"):
        self.data = bytes(data)
        self.media_type = media_type


class Record(types.SimpleNamespace):
    """An object with named fields that came from outside."""

    def __getitem__(self, name):
        return getattr(self, name)


def _tagged(tag, content):
    return {_TAG: tag, "v": content}


def _number_is_plain(value):
    kind = type(value)
    if kind is int:
        return _LOW <= value < _HIGH
    return kind is not float or math.isfinite(value)


def _items(values, depth):
    values = list(values)
    kinds = set(map(type, values))
    if kinds <= _PLAIN or (kinds <= _NUMBERS and all(map(_number_is_plain, values))):
        return values
    return [to_wire(value, depth) for value in values]


def _pairs(pairs, depth):
    return [[to_wire(key, depth), to_wire(value, depth)] for key, value in pairs]


def _dict(value, depth):
    if all(type(key) is str for key in value) and _TAG not in value:
        return {key: to_wire(item, depth) for key, item in value.items()}
    return _tagged("dict", _pairs(value.items(), depth + 2))


def _record(value, names, depth):
    fields = [[name, to_wire(getattr(value, name, None), depth + 3)] for name in names]
    return {_TAG: "record", "t": type(value).__name__, "v": fields}


def _foreign(value, depth):
    """Converts objects of libraries, recognised by their shape."""
    kind = type(value)
    module = (kind.__module__ or "").split(".")[0]
    fields = getattr(kind, "model_fields", None) or getattr(kind, "__fields__", None)
    if isinstance(fields, dict) and (hasattr(value, "model_dump") or hasattr(value, "json")):
        return _record(value, list(fields), depth)
    if hasattr(kind, "__attrs_attrs__"):
        return _record(value, [field.name for field in kind.__attrs_attrs__], depth)
    if module == "numpy":
        if hasattr(value, "tolist"):
            return to_wire(value.tolist(), depth)
    elif module == "pandas":
        if hasattr(value, "columns"):
            return to_wire(value.to_dict(orient="records"), depth)
        if hasattr(value, "isoformat"):
            return value.isoformat()
        if hasattr(value, "tolist"):
            return to_wire(value.tolist(), depth)
    elif module == "PIL" and hasattr(value, "save"):
        import io

        sink = io.BytesIO()
        value.save(sink, format="PNG")
        return to_wire(Image(sink.getvalue()), depth)
    elif module in ("uuid", "decimal", "fractions", "ipaddress"):
        return str(value)
    elif module in ("collections", "array") and kind.__name__ in ("deque", "array"):
        return _items(value, depth + 1)
    text = repr(value)
    return _tagged("opaque", text if len(text) <= _MAX_REPR else text[:_MAX_REPR] + "...")


def to_wire(value, depth=0):
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is int:
        return value if _LOW <= value < _HIGH else _tagged("int", str(value))
    if kind is float:
        return value if math.isfinite(value) else _tagged("float", repr(value))
    if depth > _MAX_DEPTH:
        return _tagged("opaque", "<%s nested too deeply>" % kind.__name__)
    above = _above.__dict__.setdefault("ids", set())
    if id(value) in above:
        # Python itself shows a container inside itself like this.
        return _tagged("opaque", {list: "[...]", tuple: "(...)"}.get(kind, "{...}"))
    above.add(id(value))
    try:
        return _compound(value, kind, depth)
    finally:
        above.discard(id(value))


_above = threading.local()  # the containers being written


def _compound(value, kind, depth):
    if kind is list:
        return _items(value, depth + 1)
    if kind is dict:
        return _dict(value, depth + 1)
    if isinstance(value, tuple):
        names = getattr(kind, "_fields", None)
        if isinstance(names, tuple) and kind is not tuple:
            return _record(value, names, depth)
        return _tagged("tuple", _items(value, depth + 2))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _tagged("bytes", base64.b64encode(bytes(value)).decode("ascii"))
    if isinstance(value, set):
        return _tagged("set", _items(value, depth + 2))
    if isinstance(value, frozenset):
        return _tagged("frozenset", _items(value, depth + 2))
    enum = _module("enum")
    if enum and isinstance(value, enum.Enum):
        return to_wire(value.value, depth + 1)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return to_wire(int(value), depth)
    if isinstance(value, float):
        return to_wire(float(value), depth)
    if isinstance(value, dict):
        return _dict(dict(value), depth + 1)
    if isinstance(value, list):
        return _items(value, depth + 1)
    if isinstance(value, Image):
        return {_TAG: "image", "t": value.media_type, "v": base64.b64encode(value.data).decode("ascii")}
    if isinstance(value, Record):
        return _record(value, list(vars(value)), depth)
    if isinstance(value, BaseException):
        return {_TAG: "exception", "t": kind.__name__, "v": str(value)}
    datetime = _module("datetime")
    if datetime:
        if isinstance(value, datetime.datetime):
            offset = value.utcoffset()
            odd = offset is not None and (offset.microseconds or offset.seconds % 60)
            return _tagged("opaque" if odd else "datetime", value.isoformat())
        if isinstance(value, datetime.date):
            return _tagged("date", value.isoformat())
        if isinstance(value, datetime.time):
            return _tagged("opaque" if value.tzinfo else "time", value.isoformat())
        if isinstance(value, datetime.timedelta):
            micros = value // datetime.timedelta(microseconds=1)
            # The longest spans do not fit a JSON number that both sides read alike: they are sent as digits.
            return _tagged("timedelta", micros if abs(micros) < 1 << 63 else str(micros))
    pathlib = _module("pathlib")
    if pathlib and isinstance(value, pathlib.PurePath):
        return _tagged("path", str(value))
    if hasattr(kind, "__dataclass_fields__"):
        return _record(value, list(kind.__dataclass_fields__), depth)
    if isinstance(value, (types.GeneratorType, map, filter, zip, range, enumerate, reversed)) or kind in _VIEWS:
        return _items(value, depth + 1)
    return _foreign(value, depth)


_VIEWS = frozenset((type({}.keys()), type({}.values()), type({}.items())))


def _module(name):
    """Returns a module if it is already loaded: otherwise a value of its types cannot exist."""
    return sys.modules.get(name)


def _from_datetime(text):
    import datetime

    return datetime.datetime.fromisoformat(text)


def _from_date(text):
    import datetime

    return datetime.date.fromisoformat(text)


def _from_time(text):
    import datetime

    return datetime.time.fromisoformat(text)


def _from_timedelta(micros):
    import datetime

    return datetime.timedelta(microseconds=int(micros))


def _from_path(text):
    import pathlib

    return pathlib.Path(text)


_DECODERS = {
    "int": int,
    "float": float,
    "bytes": base64.b64decode,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict": dict,
    "date": _from_date,
    "datetime": _from_datetime,
    "time": _from_time,
    "timedelta": _from_timedelta,
    "path": _from_path,
    "text": str,
    "part": lambda content: content,
    "opaque": str,
}


def _hook(value):
    if _TAG not in value:
        return value
    tag, content = value[_TAG], value.get("v")
    if tag == "record":
        return Record(**{str(name): item for name, item in content})
    if tag == "exception":
        return RuntimeError("%s: %s" % (value.get("t"), content))
    if tag == "image":
        return Image(base64.b64decode(content), value.get("t"))
    return _DECODERS[tag](content)


_decode = json.JSONDecoder(object_hook=_hook).decode
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode

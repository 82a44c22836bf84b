# The Python side of the wire form of values: plain JSON as it is, everything else as {"$ot": type, "v": content}.
#
# Values are written straight into the stream, in pieces, so that a large one is never held twice. Objects with no
# meaning in another process are sent as their text; a cycle is sent as Python's own "[...]". `cases/wire/vectors.json`
# has examples.

import codecs as _codecs
import sys as _sys


class _Later:
    """A module that is imported at its first use and then replaces this object, so that modules not needed to fork do
    not delay the first program."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        module = globals()["_" + self._module] = __import__(self._module)
        return getattr(module, name)


_datetime, _math, _pathlib, _types = _Later("datetime"), _Later("math"), _Later("pathlib"), _Later("types")

_MAX_JSON_DEPTH = 100  # the reader gives up at 128 levels
_MAX_INT_BITS = 1 << 20  # its digits take a second to compute
_MAX_RANGE = 1 << 20  # numbers of a range that are written out
_MAX_ITERATED = 10_000  # items taken from an iterator
_MAX_TEXT = 1 << 16  # length of the text of an object that has no other form
_PIECE = 1 << 20
_ITEMS_PIECE = 10_000
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_SCALARS = {int, str, bool, type(None), float}
_TEXT_MODULES = frozenset(("decimal", "fractions", "uuid", "ipaddress"))  # whose values are represented by their text



class _JsonRules:
    """Rules for reading JSON with only the C half of `json`, whose other half would import half of the library."""

    strict, object_hook, object_pairs_hook, memo = True, None, None, {}
    parse_float, parse_int = float, int
    parse_constant = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.__getitem__


try:
    from _json import encode_basestring as _quote, make_scanner

    _read = make_scanner(_JsonRules)
except ImportError:
    import json

    _quote, _read = json.encoder.encode_basestring, json.JSONDecoder().raw_decode


def _dumps(value):
    global _dumps
    import json

    _dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return _dumps(value)


def _loads(data):
    return _read(data.decode(), 0)[0]


_codecs.register_error("onetool", lambda error: ("\ufffd".encode() * (error.end - error.start), error.end))


class Content:
    """Content that is not text (an image, a recording, a resource). Pass it on unchanged."""

    __slots__ = ("_wire", "_text")

    def __init__(self, wire, text):
        self._wire, self._text = wire, text

    def __repr__(self):
        return self._text


class _Foreign:
    """An object of another process, known only by its text."""

    __slots__ = ("_text",)

    def __init__(self, text):
        self._text = text

    def __repr__(self):
        return self._text


def ProjectPath(path):
    """A path that belongs to the host."""
    global ProjectPath

    def shown(self):
        return "ProjectPath(%r)" % str(self)

    ProjectPath = type("ProjectPath", (type(_pathlib.Path()),), {"__slots__": (), "__repr__": shown})
    return ProjectPath(path)


class _Record(type(_sys.implementation)):
    def __getitem__(self, name):
        try:
            return self.__dict__[name]
        except KeyError:
            raise KeyError(name) from None


class TooLarge(BaseException):
    """A message is larger than the run may send."""


def _tagged_text(wire):
    kind = wire.get("$ot")
    if kind == "text":
        return wire.get("v", "")
    if kind == "image":
        return "[image %s, %d bytes]" % (wire.get("t"), len(wire.get("v", "")) * 3 // 4)
    content = wire.get("v")
    return "[%s]" % (content.get("type", "content") if isinstance(content, dict) else "content")


_record_types = {}


def record_type(name):
    found = _record_types.get(name)
    if found is None:
        found = _record_types[name] = type(str(name), (_Record,), {"__module__": "onetool"})
    return found


_DECODERS = {
    "int": lambda wire: int(wire["v"]),
    "float": lambda wire: float(wire["v"]),
    "bytes": lambda wire: _codecs.decode(wire["v"].encode(), "base64"),
    "tuple": lambda wire: tuple(map(decode, wire["v"])),
    "set": lambda wire: set(map(decode, wire["v"])),
    "frozenset": lambda wire: frozenset(map(decode, wire["v"])),
    "dict": lambda wire: {decode(key): decode(value) for key, value in wire["v"]},
    "date": lambda wire: _datetime.date.fromisoformat(wire["v"]),
    "datetime": lambda wire: _datetime.datetime.fromisoformat(wire["v"]),
    "time": lambda wire: _time_of(wire["v"]),
    "timedelta": lambda wire: _datetime.timedelta(microseconds=int(wire["v"])),
    "path": lambda wire: ProjectPath(wire["v"]),
    "record": lambda wire: record_type(wire["t"])(**{name: decode(value) for name, value in wire["v"]}),
    "exception": lambda wire: make_exception(wire["t"], wire["v"]),
    "opaque": lambda wire: _Foreign(wire["v"]),
}


def _time_of(text):
    # Before 3.11 only 3 or 6 digits of a second are accepted.
    head, dot, fraction = text.partition(".")
    return _datetime.time.fromisoformat(head + dot + fraction[:6].ljust(6, "0") if dot else head)


def decode(wire):
    """Returns a value from its wire form."""
    if type(wire) is list:
        return [decode(item) for item in wire]
    if type(wire) is dict:
        tag = wire.get("$ot")
        if tag is None:
            return {key: decode(value) for key, value in wire.items()}
        decoder = _DECODERS.get(tag)
        return Content(wire, _tagged_text(wire)) if decoder is None else decoder(wire)
    return wire


_exception_types = {}


def _key_error(message):
    """KeyError shows the repr of its key. If the host sends such a text, the argument becomes the key again."""
    import ast

    try:
        return KeyError(ast.literal_eval(message))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = type("KeyError", (KeyError,), {"__module__": "builtins", "__str__": Exception.__str__})
        return found(message)


def make_exception(name, message):
    """Returns the builtin exception of that name, or one created for it."""
    import builtins

    found = _exception_types.get(name)
    if found is None:
        builtin = getattr(builtins, name, None)
        if not (isinstance(builtin, type) and issubclass(builtin, Exception)) or issubclass(builtin, UnicodeError):
            found = type(str(name), (RuntimeError,), {"__module__": "builtins"})
        elif builtin is KeyError:
            return _key_error(message)
        else:
            found = builtin
        _exception_types[name] = found
    try:
        return found(message)
    except Exception:
        return RuntimeError("%s: %s" % (name, message))


def text_of(value):
    """Returns the text of any object, however badly it behaves."""
    try:
        text = repr(value) if type(value).__str__ is object.__str__ else str(value)
    except Exception as error:
        text = "<%s object whose repr raised %s>" % (type(value).__name__, type(error).__name__)
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."


def _digits(value):
    """Returns the digits of an integer, even one that Python itself refuses to print."""
    try:
        return int.__repr__(value)
    except ValueError:
        import sys

        limit = sys.get_int_max_str_digits()
        sys.set_int_max_str_digits(0)
        try:
            return int.__repr__(value)
        finally:
            sys.set_int_max_str_digits(limit)


def _is_enum_member(kind):
    """Whether values of a type are members of an enumeration. There are none before the module is loaded."""
    import sys

    enum = sys.modules.get("enum")
    return enum is not None and issubclass(kind, enum.Enum)


def _is_plain_object(value, kind):
    """Whether an object is shown by its attributes: its class is the program's and does not define its text."""
    return (
        kind.__module__ == "__main__"
        and not isinstance(value, type)
        and kind.__repr__ is object.__repr__
        and kind.__str__ is object.__str__
        and isinstance(getattr(value, "__dict__", None), dict)
    )


def _is_shown_by_items(value, kind):
    """Whether a value is an iterator that is shown by what it yields: one with a text of its own is shown by that."""
    if not (hasattr(kind, "__next__") and hasattr(kind, "__iter__")):
        return False
    if kind.__module__ == "_io":
        # Text and bytes in memory are not read from their beginning.
        return kind.__name__ in ("TextIOWrapper", "BufferedReader") and not value.closed and value.readable()
    if kind.__module__ in ("builtins", "itertools", "_csv"):
        return True
    return kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__


def _taken(iterator):
    """Returns the items of an iterator, up to a limit, with a note if there are more."""
    import itertools

    items = list(itertools.islice(iterator, _MAX_ITERATED + 1))
    if len(items) > _MAX_ITERATED:
        items[-1] = "... (only the first %d items are shown)" % _MAX_ITERATED
    return items


def of_package(value, kind):
    """Returns the plain value of a package's object, in a list: none is known here."""
    return []


class Writer:
    """An outgoing message. `emit` takes bytes; more than `limit` of them raise TooLarge."""

    __slots__ = ("emit", "limit", "room", "sent", "parts", "size", "open")

    def __init__(self, emit, limit, items):
        self.emit, self.limit, self.room = emit, limit, items
        self.sent = self.size = 0
        self.parts = []
        self.open = set()

    def raw(self, text):
        self.parts.append(text)
        self.size += len(text)
        if self.size >= _PIECE:
            self.flush()

    def flush(self):
        if self.parts:
            data = "".join(self.parts).encode("utf-8", "onetool")
            self.parts.clear()
            self.size = 0
            self.sent += len(data)
            if self.sent > self.limit:
                raise TooLarge("a value of more than %d bytes" % self.limit)
            self.emit(data)

    def text(self, text):
        if len(text) <= _PIECE:
            self.raw(_quote(text))
            return
        self.raw('"')
        for start in range(0, len(text), _PIECE):
            self.raw(_quote(text[start : start + _PIECE])[1:-1])
        self.raw('"')

    def tagged(self, tag, text):
        self.raw('{"$ot":"%s","v":' % tag)
        self.text(text)
        self.raw("}")

    def opaque(self, text):
        self.tagged("opaque", text)

    def value(self, value, depth=0):
        kind = type(value)
        if kind is str:
            self.text(value)
        elif value is None:
            self.raw("null")
        elif kind is bool:
            self.raw("true" if value else "false")
        elif kind is int:
            self.integer(value)
        elif kind is float:
            self.number(value)
        else:
            self.compound(value, kind, depth)

    def integer(self, value):
        if _INT_MIN <= value <= _INT_MAX:
            self.raw(int.__repr__(value))
        elif value.bit_length() > _MAX_INT_BITS:
            self.opaque("<int with %d bits>" % value.bit_length())
        else:
            self.tagged("int", _digits(value))

    def number(self, value):
        if _math.isfinite(value):
            self.raw(float.__repr__(value))
        else:
            self.tagged("float", float.__repr__(value))

    def compound(self, value, kind, depth):
        if isinstance(value, (list, tuple, dict, set, frozenset)) or hasattr(kind, "__dataclass_fields__"):
            if id(value) in self.open:
                brackets = {list: "[...]", tuple: "(...)"}.get(kind, "{...}")
                self.opaque(brackets)
                return
            if depth > _MAX_JSON_DEPTH:
                self.opaque("<%s nested too deeply>" % kind.__name__)
                return
            self.open.add(id(value))
            try:
                self.container(value, kind, depth)
            finally:
                self.open.discard(id(value))
        else:
            self.other(value, kind, depth)

    def container(self, value, kind, depth):
        fields = getattr(value, "_fields", None) if isinstance(value, tuple) else None
        if isinstance(value, dict):
            self.mapping(value, depth)
        elif isinstance(value, list):
            self.items(value, depth + 1)
        elif isinstance(fields, tuple) and all(type(field) is str for field in fields):
            self.record(kind.__name__, zip(fields, value), depth)
        elif isinstance(value, (tuple, set, frozenset)):
            tag = "tuple" if isinstance(value, tuple) else "set" if isinstance(value, set) else "frozenset"
            self.raw('{"$ot":"%s","v":' % tag)
            self.items(list(value), depth + 2)
            self.raw("}")
        else:
            names = [name for name in kind.__dataclass_fields__ if hasattr(value, name)]
            self.record(kind.__name__, [(name, getattr(value, name)) for name in names], depth)

    def plain(self, values):
        """Whether the C encoder writes these exactly as this class would."""
        kinds = set(map(type, values))
        if not kinds <= _SCALARS:
            return False
        if int in kinds and not all(_INT_MIN <= item <= _INT_MAX for item in values if type(item) is int):
            return False
        if float in kinds and not all(_math.isfinite(item) for item in values if type(item) is float):
            return False
        return str not in kinds or sum(len(item) for item in values if type(item) is str) <= _PIECE

    def charge(self, count):
        self.room -= count
        if self.room < 0:
            raise TooLarge("a value has more parts than fit into run.max_memory_mb")

    def items(self, items, depth):
        self.charge(len(items))
        self.raw("[")
        for start in range(0, len(items), _ITEMS_PIECE):
            piece = items[start : start + _ITEMS_PIECE]
            if start:
                self.raw(",")
            if self.plain(piece):
                self.raw(_dumps(piece)[1:-1])
                continue
            for index, item in enumerate(piece):
                if index:
                    self.raw(",")
                self.value(item, depth)
        self.raw("]")

    def mapping(self, mapping, depth):
        self.charge(2 * len(mapping))
        pairs = list(dict.items(mapping)) if type(mapping) is dict else list(mapping.items())
        if all(type(key) is str and key != "$ot" for key, _ in pairs):
            if len(pairs) <= _ITEMS_PIECE and self.plain([item for _, item in pairs]):
                self.raw(_dumps(dict(pairs)))
                return
            self.raw("{")
            for index, (key, item) in enumerate(pairs):
                if index:
                    self.raw(",")
                self.text(key)
                self.raw(":")
                self.value(item, depth + 1)
            self.raw("}")
            return
        self.raw('{"$ot":"dict","v":')
        self.pairs(pairs, depth + 3)
        self.raw("}")

    def pairs(self, pairs, depth):
        self.raw("[")
        for index, (key, item) in enumerate(pairs):
            self.raw(",[" if index else "[")
            self.value(key, depth)
            self.raw(",")
            self.value(item, depth)
            self.raw("]")
        self.raw("]")

    def record(self, name, pairs, depth):
        self.raw('{"$ot":"record","t":%s,"v":' % _quote(name))
        self.pairs(pairs, depth + 3)
        self.raw("}")

    def other(self, value, kind, depth):
        plain = of_package(value, kind)
        if plain:
            self.nested(value, lambda: self.value(plain[0], depth), depth)
        elif isinstance(value, str):
            self.text(str.__str__(value))
        elif isinstance(value, int):
            self.integer(int(value))
        elif isinstance(value, float):
            self.number(float(value))
        elif isinstance(value, (bytes, bytearray, memoryview)):
            import binascii

            self.tagged("bytes", binascii.b2a_base64(bytes(value), newline=False).decode())
        elif isinstance(value, _datetime.datetime):
            offset = value.utcoffset()
            odd = offset is not None and (offset.microseconds or offset.seconds % 60)
            self.tagged("opaque" if odd else "datetime", value.isoformat())
        elif isinstance(value, _datetime.date):
            self.tagged("date", value.isoformat())
        elif isinstance(value, _datetime.time):
            self.tagged("opaque" if value.tzinfo else "time", value.isoformat())
        elif isinstance(value, _datetime.timedelta):
            micros = value // _datetime.timedelta(microseconds=1)
            if _INT_MIN <= micros <= _INT_MAX:
                self.raw('{"$ot":"timedelta","v":%d}' % micros)
            else:
                self.tagged("timedelta", str(micros))
        elif isinstance(value, _pathlib.PurePath):
            self.tagged("path", str(value))
        elif isinstance(value, Content):
            self.json(value._wire)
        elif isinstance(value, type(_sys.implementation)):
            self.nested(value, lambda: self.record(kind.__name__, list(vars(value).items()), depth), depth)
        elif isinstance(value, BaseException):
            self.raw('{"$ot":"exception","t":%s,"v":' % _quote(kind.__name__))
            self.text(message_of(value))
            self.raw("}")
        elif isinstance(value, type(type.__dict__)):
            self.nested(value, lambda: self.mapping(value, depth), depth)
        elif kind is range and value and (value[-1] - value[0]) // value.step > _MAX_RANGE:
            self.opaque(repr(value))
        elif isinstance(value, (range, type({}.keys()), type({}.values()), type({}.items()))) or (
            kind.__module__ in ("collections", "array") and kind.__name__ in ("deque", "array")
        ):
            self.nested(value, lambda: self.items(list(value), depth + 1), depth)
        elif _is_shown_by_items(value, kind):
            self.nested(value, lambda: self.items(_taken(value), depth + 1), depth)
        elif kind.__module__ == "sqlite3" and kind.__name__ == "Row":
            self.nested(value, lambda: self.mapping(dict(zip(value.keys(), value)), depth), depth)
        elif kind.__module__ in _TEXT_MODULES:
            self.text(str(value))
        elif _is_enum_member(kind):
            self.value(value.value, depth + 1)
        elif _is_plain_object(value, kind):
            self.nested(value, lambda: self.record(kind.__name__, list(vars(value).items()), depth), depth)
        else:
            self.opaque(text_of(value))

    def nested(self, value, write, depth):
        if id(value) in self.open or depth > _MAX_JSON_DEPTH:
            self.opaque("...")
            return
        self.open.add(id(value))
        try:
            write()
        finally:
            self.open.discard(id(value))

    def json(self, wire):
        self.raw(_dumps(wire))


def message_of(error):
    """Returns the text of an exception, including those of its group."""
    try:
        text = str(error)
    except Exception:
        text = "<its str() raised>"
    inner = getattr(error, "exceptions", None)
    if isinstance(inner, tuple) and isinstance(error, BaseException):
        text += "".join("\n- %s: %s" % (type(one).__name__, message_of(one)) for one in inner[:10])
    for note in (getattr(error, "__notes__", None) or [])[:10]:
        text += "\n%s" % (note,)
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "..."

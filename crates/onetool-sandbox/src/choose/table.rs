//! What Monty 0.0.23 has and lacks, each entry tried on that version.

/// Modules that it has, with the members that it has.
const MODULES: &[(&str, &[&str])] = &[
    ("__future__", &[
        "nested_scopes", "generators", "division", "absolute_import", "with_statement", "print_function",
        "unicode_literals", "generator_stop", "annotations",
    ]),
    ("asyncio", &["run", "gather"]),
    ("base64", &[
        "encodebytes", "decodebytes", "b64encode", "b64decode", "b32encode", "b32decode", "b32hexencode",
        "b32hexdecode", "b16encode", "b16decode", "b85encode", "b85decode", "a85encode", "a85decode",
        "standard_b64encode", "standard_b64decode", "urlsafe_b64encode", "urlsafe_b64decode",
    ]),
    ("binascii", &["a2b_base64", "a2b_hex", "b2a_base64", "b2a_hex", "crc32", "hexlify", "unhexlify", "Error"]),
    ("collections", &["Counter", "defaultdict", "deque", "namedtuple"]),
    ("dataclasses", &["dataclass", "is_dataclass", "FrozenInstanceError"]),
    ("datetime", &["date", "datetime", "time", "timedelta", "timezone"]),
    ("functools", &["reduce", "partial"]),
    ("itertools", &[
        "accumulate", "batched", "chain", "compress", "count", "cycle", "dropwhile", "filterfalse", "islice",
        "pairwise", "repeat", "starmap", "takewhile", "zip_longest",
    ]),
    ("json", &["dumps", "loads", "JSONDecodeError"]),
    ("math", &[
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "comb", "copysign", "cos", "cosh",
        "degrees", "e", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "factorial", "floor", "fmod", "frexp", "gamma",
        "gcd", "inf", "isclose", "isfinite", "isinf", "isnan", "isqrt", "lcm", "ldexp", "lgamma", "log", "log10",
        "log1p", "log2", "modf", "nan", "nextafter", "perm", "pi", "pow", "radians", "remainder", "sin", "sinh", "sqrt",
        "tan", "tanh", "tau", "trunc", "ulp",
    ]),
    ("os", &[
        "altsep", "curdir", "pardir", "sep", "linesep", "name", "devnull", "environ", "extsep", "fspath", "listdir",
        "mkdir", "remove", "rename", "replace", "rmdir", "stat", "unlink", "makedirs", "getenv",
    ]),
    ("pathlib", &["Path"]),
    ("re", &[
        "match", "fullmatch", "search", "sub", "split", "findall", "finditer", "compile", "escape", "error",
        "PatternError", "Pattern", "Match", "A", "I", "M", "S", "ASCII", "IGNORECASE", "MULTILINE", "DOTALL", "NOFLAG",
    ]),
    ("sys", &["platform", "stderr", "stdout", "version", "version_info"]),
    ("typing", &[
        "Annotated", "Any", "Callable", "ClassVar", "Final", "Generic", "Literal", "Optional", "Protocol", "Tuple",
        "Type", "TypeVar", "Union", "Iterable", "Iterator", "Mapping", "Sequence", "Dict", "List", "Set", "FrozenSet",
        "Generator", "Never", "NoReturn", "Self", "TYPE_CHECKING",
    ]),
    ("unicodedata", &["category", "combining", "is_normalized", "lookup", "name", "normalize", "unidata_version"]),
];

/// Modules of the standard library that it lacks. A module that is in neither list is one that no engine has.
const LACKING_MODULES: &[&str] = &[
    "abc", "argparse", "array", "ast", "atexit", "bdb", "bisect", "builtins", "bz2", "cProfile", "calendar", "cmath", "cmd",
    "code", "codecs", "codeop", "colorsys", "compileall", "compression", "concurrent", "configparser", "contextlib",
    "contextvars", "copy", "copyreg", "csv", "ctypes", "curses", "dbm", "decimal", "difflib", "dis", "doctest", "email",
    "encodings", "enum", "errno", "faulthandler", "fcntl", "filecmp", "fileinput", "fnmatch", "fractions", "ftplib", "gc",
    "getopt", "getpass", "gettext", "glob", "graphlib", "grp", "gzip", "hashlib", "heapq", "hmac", "html", "http",
    "imaplib", "importlib", "inspect", "io", "ipaddress", "keyword", "linecache", "locale", "logging", "lzma", "mailbox",
    "marshal", "mimetypes", "mmap", "multiprocessing", "netrc", "numbers", "opcode", "operator", "optparse", "pdb",
    "pickle", "pickletools", "pkgutil", "platform", "plistlib", "poplib", "posixpath", "pprint", "profile", "pstats",
    "pwd", "pyclbr", "pydoc", "queue", "quopri", "random", "reprlib", "resource", "runpy", "sched", "secrets", "select",
    "selectors", "shelve", "shlex", "shutil", "signal", "site", "smtplib", "socket", "socketserver", "sqlite3", "ssl",
    "stat", "statistics", "string", "stringprep", "struct", "subprocess", "symtable", "sysconfig", "syslog", "tarfile",
    "tempfile", "textwrap", "threading", "time", "timeit", "token", "tokenize", "tomllib", "trace", "traceback",
    "tracemalloc", "types", "unittest", "urllib", "uuid", "venv", "warnings", "wave", "weakref", "webbrowser", "wsgiref",
    "xml", "xmlrpc", "zipapp", "zipfile", "zipimport", "zlib", "zoneinfo",
];

/// Builtins that it lacks.
const LACKING_BUILTINS: &[&str] = &[
    "BaseExceptionGroup", "BlockingIOError", "BrokenPipeError", "BufferError", "BytesWarning", "ChildProcessError",
    "ConnectionAbortedError", "ConnectionError", "ConnectionRefusedError", "ConnectionResetError", "DeprecationWarning",
    "EOFError", "EncodingWarning", "EnvironmentError", "ExceptionGroup", "FloatingPointError", "FutureWarning",
    "GeneratorExit", "IOError", "ImportWarning", "IndentationError", "InterruptedError", "PendingDeprecationWarning",
    "ProcessLookupError", "ReferenceError", "ResourceWarning", "RuntimeWarning", "StopAsyncIteration", "SyntaxWarning",
    "SystemError", "TabError", "UnicodeError", "UnicodeTranslateError", "UnicodeWarning", "UserWarning", "Warning",
    "__import__", "aiter", "anext", "ascii", "breakpoint", "bytearray", "callable", "classmethod", "compile", "complex",
    "delattr", "dir", "eval", "exec", "exit", "format", "globals", "help", "input", "issubclass", "locals", "memoryview",
    "quit", "staticmethod", "super", "vars",
];

/// Builtins that it has.
const BUILTINS: &[&str] = &[
    "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "Ellipsis", "Exception", "FileExistsError",
    "FileNotFoundError", "ImportError", "IndexError", "IsADirectoryError", "KeyError", "KeyboardInterrupt", "LookupError",
    "MemoryError", "ModuleNotFoundError", "NameError", "NotADirectoryError", "NotImplemented", "NotImplementedError",
    "OSError", "OverflowError", "PermissionError", "RecursionError", "RuntimeError", "StopIteration", "SyntaxError",
    "SystemExit", "TimeoutError", "TypeError", "UnboundLocalError", "UnicodeDecodeError", "UnicodeEncodeError",
    "ValueError", "ZeroDivisionError", "abs", "all", "any", "bin", "bool", "bytes", "chr", "dict", "divmod", "enumerate",
    "filter", "float", "frozenset", "getattr", "hasattr", "hash", "hex", "id", "int", "isinstance", "iter", "len", "list",
    "map", "max", "min", "next", "object", "oct", "open", "ord", "pow", "print", "property", "range", "repr", "reversed",
    "round", "set", "setattr", "slice", "sorted", "str", "sum", "tuple", "type", "zip", "__name__", "__doc__",
];

/// Special methods that it honours on classes of the program.
const SPECIAL_METHODS: &[&str] = &[
    "__init__", "__repr__", "__str__", "__eq__", "__hash__", "__contains__", "__iter__", "__next__", "__enter__",
    "__exit__", "__index__",
];

/// Those among them that must not call the host.
const SPECIAL_CALLBACKS: &[&str] =
    &["__repr__", "__str__", "__eq__", "__hash__", "__contains__", "__iter__", "__next__", "__index__"];

/// Attributes of builtin types that it lacks, where no other type has one of that name.
const LACKING_ATTRIBUTES: &[&str] = &[
    "add_note", "as_integer_ratio", "as_uri", "astimezone", "bit_count", "bit_length", "ctime", "default_factory",
    "difference_update", "format_map", "from_bytes", "from_iterable", "fromisocalendar", "fromordinal", "groupindex",
    "intersection_update", "is_integer", "is_relative_to", "isocalendar", "isprintable", "lastgroup", "lastindex",
    "maketrans", "parents", "relative_to", "subn", "symmetric_difference_update", "timetuple", "to_bytes", "toordinal",
    "translate", "tzname", "utcoffset", "utctimetuple",
];

/// Attributes of `datetime`'s classes that it lacks.
const LACKING_ON_DATES: &[&str] =
    &["combine", "fromtimestamp", "max", "min", "resolution", "today", "utcfromtimestamp", "utcnow"];

/// Methods of builtin types, which it can call but not hand over as values.
const METHODS: &[&str] = &[
    "add", "append", "capitalize", "casefold", "endswith", "extend", "format", "get", "isalnum", "isalpha", "isdigit",
    "islower", "isspace", "isupper", "items", "join", "keys", "lower", "lstrip", "rstrip", "setdefault", "split",
    "startswith", "strip", "swapcase", "title", "update", "upper", "values", "zfill",
];

/// Functions that call a function which they are given, and what they name it. It must not call the host.
const CALLBACKS: &[(&str, Callback)] = &[
    ("map", Callback::First),
    ("filter", Callback::First),
    ("reduce", Callback::First),
    ("starmap", Callback::First),
    ("takewhile", Callback::First),
    ("dropwhile", Callback::First),
    ("filterfalse", Callback::First),
    ("defaultdict", Callback::First),
    ("iter", Callback::First),
    ("accumulate", Callback::Second),
    ("sorted", Callback::Key),
    ("min", Callback::Key),
    ("max", Callback::Key),
    ("sort", Callback::Key),
];

/// Keywords of functions that it does not take.
const LACKING_KEYWORDS: &[(&str, &[&str])] = &[
    ("print", &["file"]),
    ("dumps", &["default", "cls", "skipkeys", "check_circular"]),
    ("loads", &["cls", "object_hook", "parse_float", "parse_int", "parse_constant", "object_pairs_hook"]),
    ("gather", &["return_exceptions"]),
    ("dataclass", &["init", "repr", "order", "unsafe_hash", "match_args", "kw_only", "slots", "weakref_slot"]),
];

const RESERVED_NAMES: &[&str] = &["__name__", "__debug__", "__doc__", "__annotations__", "__spec__", "__package__"];

const TYPES: &[&str] = &["bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple"];

/// Which argument is the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callback {
    First,
    Second,
    Key,
}

pub(super) fn members(module: &str) -> Option<&'static [&'static str]> {
    MODULES.iter().find(|(name, _)| *name == module).map(|(_, members)| *members)
}

/// Whether a module, by its dotted name, is one that only full Python has.
pub(super) fn lacks_module(dotted: &str) -> bool {
    let top = dotted.split('.').next().unwrap_or(dotted);
    LACKING_MODULES.binary_search(&top).is_ok() || (top != dotted && members(top).is_some())
}

pub(super) fn lacks_builtin(name: &str) -> bool {
    LACKING_BUILTINS.binary_search(&name).is_ok()
}

pub(super) fn is_builtin(name: &str) -> bool {
    BUILTINS.contains(&name) || lacks_builtin(name)
}

pub(super) fn honours_method(name: &str) -> bool {
    SPECIAL_METHODS.contains(&name) || !is_special(name)
}

pub(super) fn is_special_callback(name: &str) -> bool {
    SPECIAL_CALLBACKS.contains(&name)
}

pub(super) fn is_special(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}

pub(super) fn lacks_attribute(name: &str) -> bool {
    LACKING_ATTRIBUTES.binary_search(&name).is_ok()
}

pub(super) fn lacks_on_dates(name: &str) -> bool {
    LACKING_ON_DATES.contains(&name)
}

pub(super) fn is_method(name: &str) -> bool {
    METHODS.binary_search(&name).is_ok()
}

pub(super) fn is_type(name: &str) -> bool {
    TYPES.contains(&name)
}

pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED_NAMES.contains(&name)
}

pub(super) fn callback_of(function: &str) -> Option<Callback> {
    CALLBACKS.iter().find(|(name, _)| *name == function).map(|(_, callback)| *callback)
}

pub(super) fn lacks_keyword(function: &str, keyword: &str) -> bool {
    LACKING_KEYWORDS.iter().any(|(name, keywords)| *name == function && keywords.contains(&keyword))
}

/// Programs that Monty runs.
#[cfg(test)]
pub(super) const TRIED_IN_MONTY: &[&str] = &[
    "",
    "1 + 1",
    "brave.search(q='x')",
    "xs = [brave.search(q=q) for q in ('a', 'b')]\nxs",
    "import asyncio\nawait asyncio.gather(a.b(), a.c())",
    "import json\njson.dumps({'a': 1}, indent=2, sort_keys=True, ensure_ascii=False)",
    "import re\nre.sub(r'(a)', r'\\1b', 'a', count=1)",
    "from datetime import datetime\ndatetime.now().isoformat()",
    "import datetime\ndatetime.datetime.strptime('2024-01-02', '%Y-%m-%d')",
    "class A:\n    def __init__(self):\n        self.x = brave.get(1)\n    def __repr__(self):\n        return 'A'\nA()",
    "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    x: int | None = 1\nP()",
    "def f(x: int | None = None) -> dict[str, int] | None:\n    return x\nf()",
    "sorted({'b': 1}.items(), key=lambda kv: kv[1], reverse=True)",
    "x = 7 % 3\nn = 5\nn % 2",
    "{1} | {2}, 1 | 2",
    "with open('x') as f:\n    f.read()",
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    print(type(e).__name__, str(e))",
    "for i, (a, b) in enumerate([(1, 2)], start=1):\n    print(i, a, b, sep='-', end='')",
    "f\"{1:>5} {'a'!r} {3=}\" + '{:>5}'.format(1)",
    "a, *b = [1, 2, 3]\nx = y = 1\nx += y",
    "from collections import Counter, defaultdict\nd = defaultdict(list)\nd['a'].append(1)\nCounter('aab').most_common(1)",
    "it = iter([1])\nnext(it)",
    "list(map(str, [1]))",
    "list(map(lambda x: x + 1, [1]))",
    "max([1, 2], key=lambda x: -x)",
    "import numpy",
    "__format__ = 'yml'\n{'a': 1}",
    "return 5",
    "def super():\n    return 1\nsuper()",
    "sum(x for x in range(3))",
    "'a'.encode('utf-8').decode()",
    "d = {}\nd.get('a')\nd.update(b=1)",
    "proj.onetool / 'src'",
    "lambda *a, **k: (a, k)",
    "if (n := 5) > 3:\n    n",
];

/// Programs that it refuses or runs wrongly.
#[cfg(test)]
pub(super) const REFUSED_BY_MONTY: &[&str] = &[
    "class A(B): pass",
    "class E(Exception): pass",
    "class A(metaclass=M): pass",
    "class A:\n    @property\n    def x(self): return 1",
    "class A:\n    def __len__(self): return 1",
    "class A:\n    def __add__(self, o): return 1",
    "class A:\n    def __lt__(self, o): return True",
    "class A:\n    def __getitem__(self, o): return True",
    "class A:\n    def __bool__(self): return False",
    "class A:\n    def __post_init__(self): pass",
    "class A:\n    if True:\n        x = 1",
    "class A:\n    class B: pass",
    "class A:\n    x, y = 1, 2",
    "class A:\n    x = (y := 5)",
    "def g():\n    yield 1",
    "def g():\n    yield from [1]",
    "x = 1\ndel x",
    "match 1:\n    case 1: pass",
    "type X = int",
    "try: pass\nexcept* ValueError: pass",
    "async def f():\n    async with a: pass",
    "async def f():\n    async for a in b: pass",
    "async def f():\n    return [x async for x in y]",
    "1j",
    "a @ b",
    "a @= b",
    "'%s' % 'a'",
    "x = '%d'\nx % 3",
    "fmt % (1, 2)",
    "f'{x} %s' % 1",
    "import re\nre.sub('a', lambda m: 'b', 'a')",
    "import re\ndef f(m): return 'b'\nre.sub('a', f, 'a')",
    "import re\nre.compile('a').sub(lambda m: 'b', 'a')",
    "import time",
    "import os.path",
    "import collections.abc",
    "from time import sleep",
    "from json import *",
    "from functools import lru_cache",
    "import functools\n@functools.lru_cache\ndef f(): pass",
    "import math as m\nm.hypot(1, 2)",
    "import asyncio\nasyncio.sleep(1)",
    "import asyncio\nasyncio.gather(a, return_exceptions=True)",
    "import json\njson.dumps({}, default=str)",
    "import sys\nprint(1, file=sys.stderr)",
    "import sys\nsys.exit(1)",
    "callable(1)",
    "eval('1')",
    "input()",
    "isinstance(1, int | str)",
    "{'a': 1} | {'b': 2}",
    "d = {'a': 1}\nd |= {'b': 2}",
    "x = [1, 2]\nx[0:1] = [3]",
    "x = [1, 2]\nx[0], x[1] = x[1], x[0]",
    "next((x for x in [1]), None)",
    "it = zip([1], [2])\nnext(it)",
    "list(map(str.upper, ['a']))",
    "max(d, key=d.get)",
    "f = 'a'.upper\nf()",
    "list(map(brave.search, ['a']))",
    "sorted([1], key=lambda x: brave.rank(x))",
    "def g(x):\n    return brave.rank(x)\nsorted([1], key=g)",
    "def h(x):\n    return brave.rank(x)\ndef g(x):\n    return h(x)\nsorted([1], key=g)",
    "class A:\n    def __str__(self):\n        return brave.name()\nstr(A())",
    "from datetime import date\ndate.today()",
    "import datetime\ndatetime.datetime.fromtimestamp(0)",
    "from datetime import datetime\ndatetime.strptime('10:20', '%H:%M')",
    "(255).to_bytes(2, 'big')",
    "'a'.translate({97: 'b'})",
    "x.__dict__",
    "def f(): pass\nf.__name__",
    "raise SystemExit(1)",
    "object()",
    "bytes([1, 2])",
    "'é'.encode('latin-1')",
    "__name__ = 'x'",
    "from itertools import count\nlist((x for x in count()))",
    "from dataclasses import dataclass\n@dataclass(order=True)\nclass A:\n    x: int",
    "try: pass\nexcept ConnectionError: pass",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searched_lists_are_sorted() {
        for list in [LACKING_MODULES, LACKING_BUILTINS, LACKING_ATTRIBUTES, METHODS] {
            assert!(list.is_sorted(), "{list:?}");
        }
    }
}

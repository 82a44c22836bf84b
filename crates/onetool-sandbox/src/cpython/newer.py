# What newer versions of Python have: an error about something that this one lacks names the version that has it.

# New syntax and the Python version that introduced it, with the start of an older version's message.
_NEWER = (
    (r"\s*type\s+\w+.*=", "", (3, 12)),
    (r"\s*(async\s+def|def|class)\s+\w+\s*\[", "", (3, 12)),
    ("", "f-string", (3, 12)),
    (r"\s*except\s*\*", "", (3, 11)),
    (r"\s*except\s+[\w.]+\s*,", "", (3, 14)),
    (r""".*\b[tT][rR]?['"]""", "", (3, 14)),
    ("", "invalid syntax", None),
    ("", "expected", None),
)


# Names of the standard library and the Python version that introduced them.
_NEWER_NAMES = {
    (3, 11): """asyncio.Runner asyncio.TaskGroup asyncio.timeout asyncio.timeout_at contextlib.chdir datetime.UTC enum.StrEnum
        hashlib.file_digest math.cbrt math.exp2 operator.call re.NOFLAG tomllib typing.Self typing.LiteralString typing.Never
        typing.NotRequired typing.Required typing.assert_never typing.assert_type typing.dataclass_transform
        typing.get_overloads typing.reveal_type typing.TypeVarTuple typing.Unpack""",
    (3, 12): """Path.walk Path.with_segments asyncio.eager_task_factory calendar.Day calendar.Month itertools.batched
        math.sumprod random.binomialvariate sys.monitoring typing.TypeAliasType typing.override
        collections.abc.Buffer inspect.markcoroutinefunction inspect.getasyncgenstate""",
    (3, 13): """Path.from_uri Path.full_match base64.z85decode base64.z85encode copy.replace math.fma os.process_cpu_count
        queue.ShutDown statistics.kde statistics.kde_random typing.NoDefault typing.ReadOnly typing.TypeIs
        typing.get_protocol_members typing.is_protocol warnings.deprecated asyncio.QueueShutDown""",
    (3, 14): """Path.copy Path.copy_into Path.move Path.move_into functools.Placeholder annotationlib compression
        string.templatelib concurrent.interpreters pathlib.types heapq.heapify_max heapq.heappop_max heapq.heappush_max
        io.Reader io.Writer operator.is_none operator.is_not_none""",
}


def _with_version_of_name(error, message):
    """Returns the message of a missing name of the standard library with the Python version that has it."""
    owner = getattr(error, "obj", None)
    if isinstance(error, ModuleNotFoundError):
        wanted = error.name
    elif isinstance(error, ImportError):
        wanted = "%s.%s" % (error.name, message.partition("cannot import name '")[2].partition("'")[0])
    elif type(owner) is type(_sys):
        wanted = "%s.%s" % (owner.__name__, error.name)
    else:
        kind = owner if isinstance(owner, type) else type(owner)
        if not any(base.__name__ == "Path" and base.__module__.startswith("pathlib") for base in kind.__mro__):
            return message
        wanted = "Path.%s" % error.name
    since = _version_of(wanted)
    if since is None:
        return message
    reason = "it needs Python %d.%d; this is %d.%d" % (*since, *_sys.version_info[:2])
    return '%s; %s\nhint: set run.python: "%d.%d"; with uv, a version is enough' % (message, reason, *max(since, (3, 13)))


def _version_of(name):
    """Returns the version that introduced a name of the library, if this Python is older."""
    for since, names in _NEWER_NAMES.items():
        if since > _sys.version_info[:2] and name in names.split():
            return since
    return None


def _with_version(message, line):
    """Returns a syntax error's message with the Python version that accepts it. The sender has parsed the program with
    the newest grammar."""
    import re

    this = _sys.version_info[:2]
    for start, words, since in _NEWER:
        if not message.startswith(words) or not re.match(start, line) or (since is not None and since <= this):
            continue
        enough = max(since or (3, this[1] + 1), (3, 13))
        if since is None:
            reason = "this is Python %d.%d, and the code may need a newer one" % this
        else:
            reason = "it needs Python %d.%d; this is %d.%d" % (*since, *this)
        return '%s; %s\nhint: set run.python: "%d.%d"; with uv, a version is enough' % (message, reason, *enough)
    return message

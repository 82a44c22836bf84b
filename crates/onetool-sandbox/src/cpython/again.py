# Makes a program a function of what the host says: a run that is run again sees the same random numbers and the same time.

_CLOCK = "__onetool_now__"
_LOOKS = 1000  # at the clock that are the host's; a program that looks more often waits for something


def _determine(seed, source, ask):
    """Random numbers from a seed, and the time from the host, for the modules that the program names."""
    import random
    import time

    random.seed(seed)
    numbers = random.Random(seed)
    _os.urandom = random._urandom = lambda size, /: numbers.randbytes(size)
    real_ns, left = time.time_ns, [_LOOKS]

    def time_ns():
        if left[0] <= 0:
            return real_ns()
        left[0] -= 1
        try:
            return ask() * 1000
        except RuntimeError:
            return real_ns()  # while a value is being shown nothing can be asked

    def now():
        return time_ns() / 1e9

    def at(function):
        return lambda seconds=None, /: function(now() if seconds is None else seconds)

    if "time" in source:
        strftime, asctime = time.strftime, time.asctime
        time.time, time.time_ns = now, time_ns
        time.gmtime, time.localtime, time.ctime = at(time.gmtime), at(time.localtime), at(time.ctime)
        time.strftime = lambda form, when=None, /: strftime(form, time.localtime() if when is None else when)
        time.asctime = lambda when=None, /: asctime(time.localtime() if when is None else when)
    if "now(" in source or "today(" in source:
        import datetime as module

        module.date = _dated(module.date, now, None)
        module.datetime = _dated(module.datetime, now, module.timezone.utc)


def _dated(real, now, utc):
    """Stands for a class of `datetime` whose own methods would look at the machine's clock. Its instances are the real ones."""

    class Meta(type):
        def __instancecheck__(cls, value):
            return isinstance(value, real)

        def __subclasscheck__(cls, other):
            return issubclass(other, real)

    def new(cls, *args, **kwargs):
        return real(*args, **kwargs)

    names = {"__new__": new, "__module__": real.__module__, "__doc__": real.__doc__}
    names["today"] = classmethod(lambda cls: real.fromtimestamp(now()))
    if utc is not None:
        names["now"] = classmethod(lambda cls, tz=None: real.fromtimestamp(now(), tz))
        names["utcnow"] = classmethod(lambda cls: real.fromtimestamp(now(), utc).replace(tzinfo=None))
    return Meta(real.__name__, (real,), names)

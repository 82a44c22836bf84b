# Makes a program deterministic, given the host's answers: a repeated run sees the same random numbers and time.

_CLOCK = "__onetool_now__"
_REPEATING = "__onetool_repeating__"
_LOOKS = 1000  # clock reads that the host answers; a program that reads it more often is waiting for something
_NAP = 0.001  # length of a wait that has already been waited for


def _determine(seed, source, ask, ask_repeating):
    """Takes random numbers from a seed, and the time from the host, for the modules that the program names."""
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
            return real_ns()  # nothing can be requested while a value is being shown

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
    if "sleep" in source:
        _shorten_waits(time, ask_repeating)
    if "now(" in source or "today(" in source:
        import datetime as module

        module.date = _dated(module.date, now, None)
        module.datetime = _dated(module.datetime, now, module.timezone.utc)


def _shorten_waits(time, ask):
    """Skips waits while the program repeats what was recorded."""
    import asyncio

    sleep, sleep_async, repeats = time.sleep, asyncio.sleep, [True]

    def shortened(seconds):
        if repeats[0]:
            try:
                repeats[0] = ask()
            except RuntimeError:
                return seconds
        return min(seconds, _NAP) if repeats[0] else seconds

    def time_sleep(seconds, /):
        sleep(shortened(seconds))

    async def asyncio_sleep(delay, result=None):
        return await sleep_async(shortened(delay), result)

    time.sleep, asyncio.sleep = time_sleep, asyncio_sleep


def _dated(real, now, utc):
    """Replaces a `datetime` class whose own methods would read the machine's clock. Its instances are the real ones."""

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

# The inner side of the full Python engine: runs one program, or those of one session, then its process ends.
#
# Order matters: close inherited descriptors, raise the second wall, and only then read a program. Two descriptors carry
# messages in and out, one JSON object per line; 1 and 2 carry what the program prints. A program that finds the private
# ones can only say what it could say anyway: calls in the name of its run.
#
# Two arguments are those descriptors. One argument is the socket of a zygote: then this process never runs a program
# itself, but forks a child for each, which gets its descriptors from the socket.

import builtins as _builtins
import os as _os
import resource as _resource
import select as _select
import sys as _sys
import time as _time
import _signal
import _thread

_IN, _OUT = 3, 4  # of a forked child
_MIN_MOVED = 64
_MAX_GAPS = 10_000
_fillers = []  # kept forever: releasing them would touch their pages
_PATIENCE, _HEARKEN = 4, 3  # messages that a zygote waits for before it continues, and for how many milliseconds
_write, _receive = _os.write, _os.read  # kept in case a program replaces them
_OWN_ID = 0x2A2A2A2A  # placeholder for the process id in the wall
_REPORTING = 32 << 20  # extra memory for reporting a failure
_THREAD_STACK = 1 << 20
_MAX_FRAMES = 40
_MAX_RECURSION = 100_000  # deeper than that, memory runs out first, slowly and without a clear error
_READ = 1 << 16
_CANCEL = b"\x18\n"  # ends a line that must be ignored
# Seconds to poll for an answer before this process sleeps; pointless without a second processor.
_LOOK = 150e-6 if (_os.cpu_count() or 1) > 1 else 0
_AWAY, _MISSES, _HITS, _FIRST_PAUSE, _LAST_PAUSE = 400e-6, 8, 16, 0.001, 0.05  # see `pipe.rs`
_clock, _poller = _time.monotonic, _select.poll


class _Slot:
    __slots__ = ("loop", "future", "answer")

    def __init__(self, loop=None, future=None):
        self.loop, self.future, self.answer = loop, future, None

    def settle(self, answer):
        self.answer = answer
        if self.future is not None:
            try:
                self.loop.call_soon_threadsafe(self.wake)
            except RuntimeError:
                pass  # that loop is closed: nobody waits any more

    def wake(self):
        if not self.future.done():
            self.future.set_result(None)


class Channel:
    """Requests to the host, from any thread and any event loop. A waiting thread reads for all others too."""

    def __init__(self):
        self.lock = _thread.allocate_lock()  # over `waiting`, `reading` and `number`
        self.writing = _thread.allocate_lock()
        self.writer = None  # the thread that writes a message with the program's own values
        self.reading = _thread.allocate_lock()
        self.waiting = {}
        self.number = 0
        self.buffer = b""
        self.limit, self.items = 1 << 20, 1 << 20
        self.watched = {}
        self.orders = []  # programs that have not been taken yet
        self.poll = None
        self.missed, self.in_time, self.pause, self.sleeps_until = 0, 0, 0.0, 0.0

    def send(self, write):
        """Sends one message: `write` gets a Writer. A message that fails halfway is retracted."""

        def emit(data):
            view = memoryview(data)
            while view:
                view = view[_write(_OUT, view) :]

        self.refuse_within_a_message()
        with self.writing:
            self.writer = _thread.get_ident()
            writer = Writer(emit, self.limit, self.items)
            try:
                write(writer)
                writer.raw("\n")
                writer.flush()
            except BaseException:
                if writer.sent:
                    emit(_CANCEL)
                raise
            finally:
                self.writer = None

    def refuse_within_a_message(self):
        """Raises if a value's own code calls a tool while the value is being written: it would wait for itself."""
        if self.writer == _thread.get_ident():
            raise RuntimeError("a value cannot call tools or use files while it is being shown")

    def has_input(self):
        """Whether there is something to read, or the input has ended."""
        if self.poll is None:
            poller = _poller()
            poller.register(_IN, 1)
            self.poll = poller.poll
        return bool(self.buffer or self.poll(0))

    def read_line(self):
        """Waits for one message from the host and returns it."""
        if not self.buffer:
            # Most messages arrive alone and whole.
            piece = _receive(_IN, _READ)
            if piece.endswith(b"\n") and piece.find(b"\n") == len(piece) - 1:
                return _read(piece.decode(), 0)[0]
            if not piece:
                _os._exit(0)  # the host is gone
            self.buffer = piece
        parts = [self.buffer]
        while True:
            head, newline, rest = parts[-1].partition(b"\n")
            if newline:
                parts[-1] = head
                self.buffer = rest
                return _loads(b"".join(parts))
            piece = _receive(_IN, _READ if len(parts) < 16 else _PIECE)
            if not piece:
                _os._exit(0)  # the host is gone
            parts.append(piece)

    def read_some(self):
        """Waits for one message and takes all that came with it: nothing signals what is already in the buffer."""
        self.take(self.read_line())
        while b"\n" in self.buffer:
            self.take(self.read_line())

    def take(self, message):
        if "code" in message:
            self.orders.append(message)
            return
        with self.lock:
            slot = self.waiting.pop(message.get("id"), None)
        if slot is not None:
            slot.settle(message)

    def order(self):
        """Waits for the next program and returns it. A thread that an earlier program left behind may read it."""
        while not self.orders:
            if self.reading.acquire(timeout=0.01):
                try:
                    if not self.orders:
                        self.read_some()
                finally:
                    self.reading.release()
        return self.orders.pop(0)

    def register(self, slot):
        with self.lock:
            self.number += 1
            self.waiting[self.number] = slot
            return self.number

    def request(self, write):
        """Sends a request and waits, blocking this thread."""
        slot = _Slot()
        number = self.register(slot)
        self.send(lambda writer: write(writer, number))
        return self.wait(slot)

    def request_text(self, text):
        """Like `request`, for a short message without the program's own values, given without its number and end."""
        if self.writer is not None:
            self.refuse_within_a_message()
        slot = _Slot()
        with self.lock:
            self.number = number = self.number + 1
            self.waiting[number] = slot
        data = ("%s,\"id\":%d}}\n" % (text, number)).encode("utf-8", "onetool")
        with self.writing:
            written = _write(_OUT, data)
            while written < len(data):
                written += _write(_OUT, data[written:])
        return self.wait(slot)

    def look(self):
        """Polls for an answer briefly: sleeping and being woken takes longer than most tools."""
        last = _clock()
        end = last + _LOOK
        while not self.has_input():
            now = _clock()
            # A gap longer than one poll takes means that others need the processor.
            if now > end or now - last > _AWAY:
                self.missed += 1
                if now - last > _AWAY or self.missed > _MISSES:
                    before = 0.0 if self.in_time >= _HITS else self.pause
                    self.pause = min(max(2 * before, _FIRST_PAUSE), _LAST_PAUSE)
                    self.missed, self.in_time, self.sleeps_until = 0, 0, now + self.pause
                return
            last = now
        self.missed = 0
        self.in_time += 1

    def wait(self, slot):
        while slot.answer is None:
            # Another reader may take the answer: check again whenever it is this thread's turn to read.
            if self.reading.acquire(timeout=0.01):
                try:
                    if slot.answer is None and not self.buffer and _LOOK and _clock() > self.sleeps_until:
                        self.look()
                    while slot.answer is None:
                        self.take(self.read_line())
                    while b"\n" in self.buffer:
                        self.take(self.read_line())
                finally:
                    self.reading.release()
        return slot.answer

    async def request_async(self, write, loop):
        slot = _Slot(loop, loop.create_future())
        number = self.register(slot)
        self.send(lambda writer: write(writer, number))
        self.watch(loop)
        try:
            while slot.answer is None:
                await slot.future
        finally:
            self.unwatch(loop)
            with self.lock:
                self.waiting.pop(number, None)
        return slot.answer

    def watch(self, loop):
        count = self.watched.get(id(loop), 0)
        self.watched[id(loop)] = count + 1
        if not count:
            loop.add_reader(_IN, self.readable)

    def unwatch(self, loop):
        count = self.watched.pop(id(loop), 1) - 1
        if count:
            self.watched[id(loop)] = count
        elif not loop.is_closed():
            loop.remove_reader(_IN)

    def readable(self):
        if not self.reading.acquire(False):
            return  # a thread is reading, and takes messages for this loop too
        try:
            # A thread may have taken it between the wake-up and now: this loop must not block.
            import select

            if select.select([_IN], [], [], 0)[0]:
                self.read_some()
        finally:
            self.reading.release()


_channel = Channel()


_SHORT = 1 << 12
_SHORT_KINDS = {str: _quote, int: int.__repr__, bool: {False: "false", True: "true"}.get, type(None): lambda _: "null"}


def _short(value):
    """Returns the JSON of a value as a Writer would write it, if it is one small piece, or None."""
    write = _SHORT_KINDS.get(type(value))
    if write is None or (write is _quote and len(value) > _SHORT):
        return None
    if write is int.__repr__ and not -_SHORT < value < _SHORT:
        return None
    return write(value)


def _running_loop():
    asyncio = _sys.modules.get("asyncio")
    return asyncio._get_running_loop() if asyncio is not None else None


def _answer(message):
    error = message.get("error")
    if error is not None:
        raise make_exception(error[0], error[1])
    return message


class HostFunction:
    """A function that the host executes."""

    __slots__ = ("_pack", "_function", "_full_name", "__name__", "_head", "_bare")

    def __init__(self, pack, function):
        self._pack, self._function = pack, function
        self.__name__ = function
        names = ("null" if pack is None else _quote(pack), _quote(function))
        self._head = '{"call":{"pack":%s,"function":%s,"args":[' % names
        self._bare = self._head + '],"kwargs":[]'
        self._full_name = function if pack is None else "%s.%s" % (pack, function)

    def __repr__(self):
        return "<function %s>" % self._full_name

    def _message(self, args, kwargs):
        def write(writer, number):
            pack = "null" if self._pack is None else _quote(self._pack)
            writer.raw('{"call":{"id":%d,"pack":%s,"function":%s,"args":' % (number, pack, _quote(self._function)))
            writer.items(list(args), 3)
            writer.raw(',"kwargs":[')
            for index, (name, value) in enumerate(kwargs.items()):
                writer.raw("%s[%s," % ("," if index else "", _quote(str(name))))
                writer.value(value, 5)
                writer.raw("]")
            writer.raw("]}}")

        return write

    def _text(self, args, kwargs):
        """Returns the message without its number, or None if the arguments need a Writer."""
        if len(args) + len(kwargs) > 32:
            return None
        positional = [_short(value) for value in args]
        named = [_short(value) for value in kwargs.values()]
        if None in positional or None in named:
            return None
        pairs = ["[%s,%s]" % (_quote(name), text) for name, text in zip(kwargs, named)]
        return '%s%s],"kwargs":[%s]' % (self._head, ",".join(positional), ",".join(pairs))

    def __call__(self, /, *args, **kwargs):
        text = self._text(args, kwargs) if args or kwargs else self._bare
        message = _channel.request(self._message(args, kwargs)) if text is None else _channel.request_text(text)
        value = _answer(message).get("value")
        return value if type(value) is str else decode(value)

    async def _start(self, args, kwargs):
        loop = _running_loop()
        if loop is None:
            return self(*args, **kwargs)
        return decode(_answer(await _channel.request_async(self._message(args, kwargs), loop)).get("value"))


class Pack:
    """An object of the host: its attributes are requested when they are used."""

    __slots__ = ("_name", "_known")

    def __init__(self, name):
        self._name, self._known = name, {}

    def __repr__(self):
        return "<pack '%s'>" % self._name

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError("pack '%s' has no attribute '%s'" % (self._name, name), name=name, obj=self)
        known = self._known.get(name)
        if known is not None:
            return known

        def write(writer, number):
            pair = (number, _quote(self._name), _quote(name))
            writer.raw('{"attribute":{"id":%d,"pack":%s,"name":%s}}' % pair)

        found = _answer(_channel.request(write)).get("found") or {}
        if not found:
            raise AttributeError("pack '%s' has no attribute '%s'" % (self._name, name), name=name, obj=self)
        value = _found(found, self._name)
        if isinstance(value, (HostFunction, Pack)):
            self._known[name] = value
        return value


def _found(found, pack):
    if "pack" in found:
        return Pack(found["pack"])
    if "function" in found:
        return HostFunction(pack, found["function"])
    return decode(found["value"])


def _call_async(function, /, *args, **kwargs):
    return function._start(args, kwargs) if type(function) is HostFunction else function(*args, **kwargs)


async def _ready(value):
    return value


_coroutine = _ready(None)
_Coroutine = type(_coroutine)
_coroutine.close()


def _settle(value):
    is_coroutine = isinstance(value, _types.GeneratorType) and value.gi_code.co_flags & 0x100
    return value if is_coroutine or hasattr(type(value), "__await__") else _ready(value)


def _is_awaitable(value):
    return _Coroutine is type(value) or hasattr(type(value), "__await__")


def _settle_all(values):
    return [_settle(value) for value in values]


# Modules that open windows or print when they are imported.
_SURPRISING = {"antigravity", "idlelib", "this", "tkinter", "turtle", "turtledemo"}


def _dotted(node):
    """Returns the name and the attribute of `name.attribute`, or None."""
    if isinstance(node, _ast.Attribute) and isinstance(node.value, _ast.Name):
        return node.value.id, node.attr
    return None


def _chain(node, name):
    """Returns `["a", "b"]` of `name.a.b`, or None."""
    chain = []
    while isinstance(node, _ast.Attribute):
        chain.insert(0, node.attr)
        node = node.value
    return chain if isinstance(node, _ast.Name) and node.id == name and len(chain) > 1 else None


def _file_tool(function, path, arguments):
    return HostFunction("file", function)(path, **arguments)


_files = _Files(_file_tool)
_project_modules = _ProjectModules(_files)


class _Return(BaseException):
    def __init__(self, value):
        self.value = value


class Run:
    """One program, or those of a session one after another: all share the names of one module."""

    def __init__(self):
        self.count = 0
        self.module = type(_sys)("__main__")
        self.globals = self.module.__dict__
        self.globals["__builtins__"] = _builtins
        self.hidden = {RETURN: _Return, ASYNC: _call_async, SETTLE: _settle, SETTLE_ALL: _settle_all}

    def take(self, order):
        """Accepts the next program."""
        self.count += 1
        # Functions of an earlier program have their own line numbers.
        self.name = order["script_name"] if self.count == 1 else "%s %d" % (order["script_name"], self.count)
        self.source, self.read_back = order["code"], order["read_back"]
        self.recursion, self.keeps_names = order["max_recursion"], order["keeps_names"]
        self.refused = {}
        self.compiled = False
        for name in (VALUE, *self.read_back):
            self.globals.pop(name, None)  # of an earlier program
        _files.allow(order["files"], order["folder"])
        if order.get("seed") is not None:
            # The set of imported modules must not depend on when this process was forked: an import may read the clock.
            for name in _PRELOADED.split():
                _preload(name)
            _determine(order["seed"], self.source, HostFunction(None, _CLOCK), HostFunction(None, _REPEATING))

    def resolve(self, tree):
        """Asks the host for names that are neither defined here nor Python's."""
        names = names_read(tree)
        names = [name for name in names if name not in self.globals and not hasattr(_builtins, name)]
        names = [name for name in names if name not in self.hidden and name not in self.refused]
        if not names:
            return
        listed = ",".join(map(_quote, sorted(names)))
        write = lambda writer, number: writer.raw('{"lookup":{"id":%d,"names":[%s]}}' % (number, listed))
        answered = _answer(_channel.request(write))["names"]
        for name in names:
            found = answered.get(name)
            if found is not None and "error" not in found:
                self.globals[name] = _found(found, None)
                continue
            module = self.forgotten(name, tree)
            if module is not None:
                self.globals[name] = module
            elif found is not None:
                self.refused[name] = found["error"]

    def forgotten(self, name, tree):
        """Returns the standard module whose attributes the program uses without importing it, or None."""
        if name not in _sys.stdlib_module_names or name.startswith("_") or name in _SURPRISING:
            return None
        attributes = {node[1] for node in map(_dotted, walk(tree)) if node and node[0] == name}
        if not attributes:
            return None
        try:
            module = __import__(name)
            # `datetime.now()` means the class.
            if isinstance(vars(module).get(name), type) and all(hasattr(vars(module)[name], each) for each in attributes):
                return vars(module)[name] if any(not hasattr(module, each) for each in attributes) else module
            for attribute in attributes:
                if not hasattr(module, attribute) and _version_of("%s.%s" % (name, attribute)) is None:
                    __import__("%s.%s" % (name, attribute))
        except ImportError:
            return None
        for chain in filter(None, (_chain(node, name) for node in walk(tree))):
            self.import_along(module, chain)
        return module

    def import_along(self, module, chain):
        """Imports the submodules that a chain of attributes names, as in `xml.etree.ElementTree.parse`."""
        for attribute in chain:
            if not hasattr(module, attribute):
                try:
                    __import__("%s.%s" % (module.__name__, attribute))
                except ImportError:
                    return
            module = getattr(module, attribute, None)
            if type(module) is not type(_sys):
                return

    def compile(self):
        tree = parse(self.source, self.name)
        if "import" in self.source:
            _project_modules.note(tree)
        self.resolve(tree)
        tree = rewrite(tree, self.source)
        return compile(tree, self.name, "exec", _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)

    def dynamic(self, name):
        """Returns a version of `eval` or `exec` that also finds the host's names."""
        real = getattr(_builtins, name)

        def evaluate(source, globals=None, locals=None, /, **options):
            caller = _sys._getframe(1)
            if globals is None:
                globals = caller.f_globals
                locals = caller.f_locals if locals is None else locals
            if isinstance(source, str) and globals is self.globals:
                try:
                    tree = parse(source, "<string>")
                except SyntaxError:
                    tree = None
                if tree is not None:
                    self.resolve(tree)
            return real(source, globals, locals, **options)

        evaluate.__name__ = evaluate.__qualname__ = name
        return evaluate

    def prepare(self):
        _files.install(self.source)
        if "signal" in self.source:
            import signal

            signal.alarm = signal.setitimer = _no_alarm
        _sys.argv = [self.name]
        if "traceback" in self.source or "inspect" in self.source or "logging" in self.source:
            import linecache

            lines = self.source.splitlines(keepends=True)
            linecache.cache[self.name] = (len(self.source), None, lines, self.name)

    def install(self):
        """Installs the replacements for Python's own functions that every program sees."""

        def no_input(prompt="", /):
            raise EOFError("no input in a sandbox")

        def leave(code=None):
            raise SystemExit() if code is None else SystemExit(code)

        real_limit = _sys.setrecursionlimit

        def setrecursionlimit(limit, /):
            real_limit(min(limit, _MAX_RECURSION) if isinstance(limit, int) else limit)

        _sys.meta_path.append(_project_modules)
        _sys.addaudithook(_explain)
        _sys.setrecursionlimit = setrecursionlimit
        _builtins.input = no_input
        _builtins.exit = _builtins.quit = leave
        _builtins.eval, _builtins.exec = self.dynamic("eval"), self.dynamic("exec")
        for name, value in self.hidden.items():
            setattr(_builtins, name, value)
        _sys.modules["__main__"] = self.module

    def drive(self, coroutine, with_loop=False, loop=None):
        if "asyncio" not in self.source and not with_loop:
            # Nothing can wait for anything but the host, so one step runs it all.
            try:
                coroutine.send(None)
            except StopIteration:
                return
            coroutine.close()
            raise RuntimeError("the program awaits something that no event loop drives: import asyncio")
        import asyncio

        loop = loop or asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        main = loop.create_task(self.to_the_end(coroutine))
        loop.run_until_complete(main)
        leftover = asyncio.all_tasks(loop)
        for task in leftover:
            task.cancel()
        if leftover:
            loop.run_until_complete(asyncio.gather(*leftover, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        if self.keeps_names:
            loop.close()

    async def to_the_end(self, coroutine):
        """Runs the program, and then the coroutine or task that it leaves as its value."""
        await coroutine
        value = self.globals.get(VALUE)
        if _is_awaitable(value):
            self.globals[VALUE] = await value

    def finished(self, value):
        """Awaits a value that the program did not await."""
        if not _is_awaitable(value):
            return value
        self.globals[VALUE] = value
        # A future, such as one from gather(), belongs to the loop that was current when it was created.
        loop = value.get_loop() if hasattr(value, "get_loop") else None
        self.drive(_ready(None), with_loop=True, loop=loop)
        return self.globals.pop(VALUE, None)

    def execute(self):
        code = self.compile()
        self.compiled = True
        self.prepare()
        _sys.setrecursionlimit(self.recursion)
        try:
            try:
                if code.co_flags & 0x80:  # a coroutine: the top level awaits
                    self.drive(_real_eval(code, self.globals))
                else:
                    _real_exec(code, self.globals)
                value = self.globals.pop(VALUE, None)
            except _Return as early:
                value = early.value
            except SystemExit as end:
                if end.code not in (None, 0):
                    raise
                value = None
            value = self.finished(value)
            value = shown_figures(value, self.source)
        finally:
            if "atexit" in self.source and not self.keeps_names:
                import atexit

                atexit._run_exitfuncs()
            _files.finish(self.keeps_names)
        if (silenced := _files.silenced(self.source)) is not None:
            raise silenced
        return value

    def frames(self, error):
        if isinstance(error, SyntaxError) and error.filename == self.name and error.lineno:
            return [(error.lineno, None)]
        frames, trace = [], error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename == self.name:
                frames.append((trace.tb_lineno, None if code.co_name == "<module>" else code.co_name))
            trace = trace.tb_next
        return frames if len(frames) <= _MAX_FRAMES else frames[:5] + frames[5 - _MAX_FRAMES :]

    def failure(self, error):
        """Returns what to report, as the parts of a message."""
        frames = self.frames(error)
        kind, message = type(error).__name__, error.msg if isinstance(error, SyntaxError) else message_of(error)
        if isinstance(error, SyntaxError) and not self.compiled:
            message = _with_version(message, error.text or "")
        if isinstance(error, PermissionError) and error.errno == 1 and message.startswith("[Errno 1] Operation not permitted"):
            message += _why_refused(error)
        if isinstance(error, OSError) and "dbm" in _modules_of(error):
            message += _NO_DBM
        if isinstance(error, (AttributeError, ImportError)):
            message = _with_version_of_name(error, message)
        if isinstance(error, ImportError) and "None in sys.modules" in message:
            message = "%s is not available in the sandbox" % (error.name or "this module")
        if isinstance(error, NameError) and getattr(error, "name", None) in self.refused:
            kind, message = self.refused[error.name]
        if isinstance(error, MemoryError) and not self.compiled:
            kind = "SyntaxError"  # the parser ran out of its own stack, not of memory
            message = "the program is nested too deeply"
        return kind, message or "", frames

    def kept(self, writer):
        writer.raw('"read_back":[')
        names = [name for name in self.read_back if name in self.globals]
        for index, name in enumerate(names):
            writer.raw("%s[%s," % ("," if index else "", _quote(name)))
            writer.value(self.globals[name], 5)
            writer.raw("]")
        writer.raw("]}}")

    def report(self):
        try:
            value = self.execute()
            _flush()

            def done(writer):
                writer.raw('{"done":{"value":')
                writer.value(value, 3)
                writer.raw(",")
                self.kept(writer)

            _channel.send(done)
            return
        except TooLarge as error:
            failed = ("", str(error), [], "true")
        except BaseException as error:
            _more_memory()
            failed = (*self.failure(error), "false")
            error.__traceback__ = None
        _sys.setrecursionlimit(10_000)
        kind, message, frames, too_large = failed
        _flush()

        def write(writer):
            writer.raw('{"failed":{"exception":%s,"message":' % _quote(kind))
            writer.text(message)
            writer.raw(',"too_large":%s,"frames":%s,' % (too_large, _dumps(frames)))
            self.kept(writer)

        _channel.send(write)


_real_eval, _real_exec = eval, exec


def _modules_of(error):
    """Returns the top-level modules that an exception passed through."""
    trace, modules = error.__traceback__, set()
    while trace is not None:
        modules.add(trace.tb_frame.f_globals.get("__name__", "").partition(".")[0])
        trace = trace.tb_next
    return modules


def _why_refused(error):
    """Returns a hint for an operation that the kernel refused with only an error number."""
    if "multiprocessing" in _modules_of(error):
        return ": %s; concurrent.futures.ThreadPoolExecutor works" % _NO_PROCESSES
    return (
        "\nhint: code in the sandbox has no processes, signals, devices or network of its own; "
        "call a tool that does the work; ot.packs() lists them"
    )


_NO_PROCESSES = "code in the sandbox cannot start processes\nhint: call a tool that does the work; ot.packs() lists them"
_NO_NETWORK = (
    "code in the sandbox has no network\n"
    "hint: call a tool: web.fetch(url), a configured HTTP tool or a server's tool; ot.packs() lists them"
)
_REFUSED_EVENTS = dict.fromkeys(
    ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn"), _NO_PROCESSES
)
_REFUSED_EVENTS.update(
    dict.fromkeys(
        ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"), _NO_NETWORK
    )
)
_REFUSED_EVENTS.update(
    dict.fromkeys(
        ("os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate", "os.setxattr"),
        "code in the sandbox cannot change the mode or owner of a file, make a link, or cut a file by its name\n"
        "hint: open(path, 'w') writes a file anew; shutil.copy(source, target) copies one",
    )
)
_NO_SIGNALS = (
    "code in the sandbox can send no signals and set no alarms\n"
    "hint: asyncio.wait_for(..., timeout=seconds) limits a wait; run.timeout limits a run"
)
_REFUSED_EVENTS.update({"socket.__new__": _NO_NETWORK, "os.kill": _NO_SIGNALS, "os.killpg": _NO_SIGNALS})
_NETWORK_FAMILIES = (2, 10, 23, 30)  # AF_INET, and AF_INET6 of different systems
# Uses of these that the kernel allows.
_HARMLESS = {
    "socket.__new__": lambda arguments: arguments[1] not in _NETWORK_FAMILIES,
    "os.kill": lambda arguments: arguments[0] == _os.getpid(),
    "os.killpg": lambda arguments: arguments[0] == _os.getpid(),
}
_NO_DBM = (
    "; shelve and dbm cannot open files in the sandbox\n"
    "hint: json.dump(value, open(path, 'w')) stores values, and a session keeps them from run to run"
)
_NO_DATABASE_FILE = (
    "SQLite cannot open files in the sandbox\n"
    "hint: sqlite3.connect(':memory:') works; con.deserialize(open(path, 'rb').read()) loads a database file into it, and "
    "open(path, 'wb').write(con.serialize()) stores it"
)


def _no_alarm(*_):
    raise PermissionError(1, _NO_SIGNALS)


def _explain(event, arguments, refused=_REFUSED_EVENTS):
    """Refuses with a reason what the kernel would refuse with an error number. The kernel is the wall, not this."""
    if event in refused and not (event in _HARMLESS and _HARMLESS[event](arguments)):
        raise PermissionError(1, refused[event])
    if event == "sqlite3.connect" and not any(part in str(arguments[0]) for part in (":memory:", "mode=memory")):
        raise PermissionError(1, _NO_DATABASE_FILE)


def _flush():
    for stream in (_sys.stdout, _sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def _more_memory():
    try:
        _, hard = _resource.getrlimit(_resource.RLIMIT_AS)
        _resource.setrlimit(_resource.RLIMIT_AS, (hard, hard))
    except (OSError, ValueError):
        pass


def _limit(order):
    """Sets the run's own limits, below those that the launcher set."""
    cpu = int(order["timeout"]) + 5
    if order["keeps_names"]:
        used = _resource.getrusage(_resource.RUSAGE_SELF)
        cpu += int(used.ru_utime + used.ru_stime)
    space = order["max_memory"] + order["headroom"]
    for kind, soft, hard in (
        (_resource.RLIMIT_CPU, cpu, _resource.RLIM_INFINITY if order["keeps_names"] else cpu + 1),
        (_resource.RLIMIT_AS, space, space + _REPORTING),
    ):
        _, ceiling = _resource.getrlimit(kind)
        if ceiling != _resource.RLIM_INFINITY:
            soft = min(soft, ceiling)
            hard = ceiling if hard == _resource.RLIM_INFINITY else min(hard, ceiling)
        try:
            _resource.setrlimit(kind, (soft, hard))
        except (OSError, ValueError):
            pass  # a system without that limit
    if _sys.platform != "linux":
        # Ends the process if the host dies while the program sleeps. On Linux it ends with its parent.
        _signal.setitimer(_signal.ITIMER_REAL, order["timeout"] + 10)


_foreign_modules = []  # those of ctypes
_has_packages = False


def _libc():
    """Loads the C library, while there is no program that could use it."""
    import ctypes

    return ctypes, ctypes.CDLL(None, use_errno=True)


_filter_types = []


def _filter_type(ctypes):
    """The structure that the kernel expects a filter in; a zygote creates it once for all its children."""
    if not _filter_types:

        class Program(ctypes.Structure):
            _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

        _filter_types.append(Program)
    return _filter_types[0]


def _wall(program, ctypes, libc):
    """Applies the second seccomp filter: no more processes, signals to others, or opening files for writing."""
    own = _os.getpid().to_bytes(4, _sys.byteorder)
    code = bytes.fromhex(program).replace(_OWN_ID.to_bytes(4, _sys.byteorder), own)
    filters = _filter_type(ctypes)(len(code) // 8, code)
    if libc.prctl(22, 2, ctypes.byref(filters), 0, 0):
        raise OSError(ctypes.get_errno(), "the second seccomp filter was refused")


def _own_domain(ctypes, libc):
    """Enters its own Landlock domain, out of reach of its siblings. Older kernels rely on the filter alone."""
    rules = [0, 0b11, 0b11]  # no file rights, both network rights, both scopes
    rules = b"".join(rule.to_bytes(8, _sys.byteorder) for rule in rules)
    descriptor = libc.syscall(444, rules, ctypes.c_size_t(len(rules)), 0)
    if descriptor >= 0:
        libc.syscall(446, descriptor, 0)
        _os.close(descriptor)


def _streams():
    import io

    for name in ("stdout", "stderr"):
        stream = io.TextIOWrapper(getattr(_sys, name).detach(), "utf-8", "backslashreplace", line_buffering=True)
        setattr(_sys, name, stream)
        setattr(_sys, "__%s__" % name, stream)


def _confine(setup):
    """Raises the second wall, or ends the process if the wall is required and fails."""
    try:
        if setup["wall"] is not None:
            ctypes, libc = _libc()
            _own_domain(ctypes, libc)
            _wall(setup["wall"], ctypes, libc)
    except Exception as error:
        if setup["wall_required"]:
            reason = "the Python interpreter cannot confine itself: %s" % error
            _channel.send(lambda writer: writer.raw('{"unavailable":%s}' % _quote(reason)))
            _os._exit(0)


def _serve():
    """Runs the programs of this process: one, or those of a session."""
    _confine(_channel.read_line())
    _filter_types.clear()
    if not _has_packages:  # they may need it, and it can do nothing that the wall forbids
        for name in _foreign_modules:
            _sys.modules.pop(name, None)
        _sys.modules["ctypes"] = _sys.modules["_ctypes"] = None
    _channel.send(lambda writer: writer.raw('"ready"'))
    run = Run()
    run.install()
    if not _channel.has_input():
        _limber_up()
    while True:
        order = _channel.order()
        _limit(order)
        _channel.limit, _channel.items = order["max_value_bytes"], order["max_value_items"]
        run.take(order)
        run.report()
        if not order["keeps_names"]:
            _os._exit(0)
        del order


def _limber_up():
    """Does in advance what every program makes this process do, so that shared memory is copied while it waits."""
    run = Run()
    run.take(_loads(_REHEARSED))
    run.source = run.source.replace("tools.tool('a', b=1)", "len('a')")
    code = run.compile()
    _real_exec(code, run.globals)
    writer = Writer(len, 1 << 20, 1 << 20)
    writer.raw('{"done":{"value":')
    writer.value(run.globals.pop(VALUE), 3)
    run.kept(writer)
    writer.flush()
    _flush()


# Threads do not survive a fork, and there is no screen.
_FOR_PACKAGES = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
_FOR_PACKAGES["MPLCONFIGDIR"] = "/memory/matplotlib"

# The modules that programs import most, and their imports: a fork request waits for one import at most. A module listed
# here costs a program nothing, and the zygote its memory.
_PRELOADED = """
types collections functools enum itertools math json re random datetime dataclasses typing string base64 bisect calendar
contextlib copy csv decimal fractions heapq inspect io linecache operator os pathlib select statistics textwrap time traceback
threading logging socket selectors subprocess concurrent.futures asyncio
"""


# The program that a zygote rehearses.
_REHEARSED = b'''{"code": "class A:\\n    pass\\nclass B(A):\\n    pass\\ntools.tool('a', b=1)\\n[len((1, 2))]", "script_name": "run",
"read_back": [], "max_recursion": 1000, "keeps_names": false, "files": "none", "folder": "", "seed": null}'''.replace(b"\n", b"") + b"\n"


def _preload(name):
    without_ssl = "ssl" not in _sys.modules
    if without_ssl:
        _sys.modules["ssl"] = None  # asyncio would load it, for a network that does not exist here
    try:
        __import__(name)
    except ImportError:
        pass
    if without_ssl:
        del _sys.modules["ssl"]


class _Zygote:
    """Forks a child per program. Messages on the socket are one byte and the number of a run, see `zygote.rs`."""

    def __init__(self, descriptor):
        import _socket

        self.socket = _socket.socket(fileno=descriptor)
        self.woken, self.waking = _os.pipe2(_os.O_NONBLOCK | _os.O_CLOEXEC)
        self.processes, self.numbers = {}, {}
        self.ctypes, self.libc = _libc()
        self.id = _os.getpid()
        # There is one thread, and no lock is held: the fork hooks of modules would only copy pages. Packages may rely
        # on them.
        self.fork = _os.fork if _has_packages else self.ctypes.PyDLL(None).fork

    def serve(self, preload):
        import gc

        for name in ("glob", "shutil", "tempfile", *preload) if _has_packages else ():
            before = set(_sys.modules)
            try:
                __import__(name)
            except BaseException:
                # A program that imports it must see the error, not a half-imported module.
                for half in set(_sys.modules) - before:
                    del _sys.modules[half]
            _files.install("")
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(self.waking, warn_on_full_buffer=False)
        poll = _select.poll()
        for descriptor in (self.socket.fileno(), self.woken):
            poll.register(descriptor, _select.POLLIN)
        if _has_packages:
            self.settle()
        else:
            gc.freeze()
        self.socket.send(b"R")
        # A program that arrives before this is done imports what it needs itself. The first ones may be about to
        # arrive: they must not wait for an import.
        waiting = [self.hold, *_PRELOADED.split(), self.rest]
        patience, pause = _PATIENCE, _HEARKEN
        while True:
            ready = poll.poll(pause if waiting else None)
            for descriptor, _ in ready:
                if descriptor == self.woken:
                    self.reap()
                else:
                    descriptors = self.take()
                    if descriptors:
                        return descriptors
            if ready:
                patience -= 1
                pause = _HEARKEN if patience > 0 else 0
            elif waiting:
                pause, step = 0, waiting.pop(0)
                step() if callable(step) else _preload(step)

    def rest(self):
        """Does the last preparations, once all modules are loaded."""
        for later in (_datetime, _math, _types):
            later.__name__  # from here on it is the module itself
        ProjectPath(".")
        _dumps([])
        _files.install("")
        self.gather()
        self.rehearse(16)
        self.settle()

    def settle(self):
        """Frees garbage and freezes the rest: children share these pages as long as no collection touches them."""
        import gc

        gc.collect()
        if hasattr(self.libc, "malloc_trim"):
            self.libc.malloc_trim(0)
        _fillers.extend(self.fill(size) for size in range(48, 513, 16))
        gc.freeze()

    def fill(self, size):
        """Fills the gaps between objects of a size: a child's objects get new pages instead of copies of many."""
        taken, row, last = [], 0, 0
        while row < 4096 // size and len(taken) < _MAX_GAPS:
            taken.append(bytes(size - 33))
            row = row + 1 if id(taken[-1]) - last == size else 0
            last = id(taken[-1])
        return taken

    def rehearse(self, times):
        """Does what every child does, so that what Python creates on first use exists before the fork."""
        global _channel, _IN, _OUT
        pipes = _os.pipe() + _os.pipe()
        real = _channel, _IN, _OUT
        _channel, _IN, _OUT = Channel(), pipes[0], pipes[3]
        try:
            for _ in range(times):
                _os.write(pipes[1], _REHEARSED)
                order = _channel.order()
                _channel.send(lambda writer: writer.raw('"ready"'))
                run = Run()
                run.count = 1  # installs nothing
                run.take(order)
                run.globals["tools"] = Pack("tools")
                run.globals["tools"]._known["tool"] = HostFunction("tools", "tool")
                _os.write(pipes[1], b'{"id":%d,"value":"answer"}\n' % (_channel.number + 1))
                run.report()
                _os.read(pipes[2], _READ)
        finally:
            _channel, _IN, _OUT = real
            for descriptor in pipes:
                _os.close(descriptor)

    def gather(self):
        """Moves the code that every child runs together: counting references then copies a few pages, not many."""
        used = set()
        _sys.setprofile(lambda frame, *_: used.add(frame.f_code))
        try:
            self.rehearse(1)
        finally:
            _sys.setprofile(None)

        def moved(code):
            constants = [moved(each) if type(each) is type(code) else each for each in code.co_consts]
            return code.replace(co_consts=tuple(constants))

        # The zygote's own code too: a page that it writes after a fork is copied as well.
        used.update(each.__code__ for each in vars(_Zygote).values() if type(each) is type(_main))
        places = [globals(), *(vars(each) for each in globals().values() if type(each) is type)]
        for function in [each for place in places for each in place.values()]:
            if type(function) is type(_main) and function.__code__ in used:
                function.__code__ = moved(function.__code__)

    def hold(self):
        """Does what every child does first, where that has no effect: it resolves the functions of the C library."""
        self.libc.prctl(1, _signal.SIGKILL, 0, 0, 0)
        self.libc.syscall(444, None, self.ctypes.c_size_t(0), 1)  # the version of Landlock
        self.ctypes.get_errno(), self.ctypes.byref(_filter_type(self.ctypes)(0, b""))
        for kind in (_resource.RLIMIT_CPU, _resource.RLIMIT_AS):
            _resource.setrlimit(kind, _resource.getrlimit(kind))
        _os.getppid(), _os.closerange(1 << 15, 1 << 16)
        _os.close(_os.dup2(self.woken, _MIN_MOVED, False))
        # Children drop these modules; deallocating them would copy their pages into each child.
        self.ctypes.pythonapi.Py_IncRef(self.ctypes.py_object(_filter_type(self.ctypes)))
        for name in _foreign_modules:
            self.ctypes.pythonapi.Py_IncRef(self.ctypes.py_object(_sys.modules[name]))
        for held in (self.libc, self.fork):
            self.ctypes.pythonapi.Py_IncRef(self.ctypes.py_object(held))

    def take(self):
        """Handles one request. Returns only in a new child, with its descriptors."""
        data, passed, _, _ = self.socket.recvmsg(16, 28)
        if not data:
            _os._exit(0)  # the server is gone
        numbers = passed[0][2] if passed else b""
        descriptors = [int.from_bytes(numbers[at : at + 4], _sys.byteorder) for at in range(0, len(numbers), 4)]
        number = int.from_bytes(data[1:], "little")
        if data[:1] == b"K":
            process = self.processes.get(number)
            if process is not None:
                _os.kill(process, _signal.SIGKILL)
            return None
        try:
            process = self.fork()
        except OSError:
            process = -1
        if not process:
            return descriptors
        if process > 0:
            self.processes[number], self.numbers[process] = process, number
        else:
            self.ended(number, 127 << 8)
        for descriptor in descriptors:
            _os.close(descriptor)
        return None

    def reap(self):
        try:
            _os.read(self.woken, 4096)
        except BlockingIOError:
            pass
        while self.numbers:
            process, status = _os.waitpid(-1, _os.WNOHANG)
            if not process:
                return
            number = self.numbers.pop(process)
            del self.processes[number]
            self.ended(number, status)

    def ended(self, number, status):
        self.socket.send(b"E" + number.to_bytes(8, "little") + status.to_bytes(4, "little"))

    def leave(self, descriptors):
        """Leaves nothing of the zygote but its modules, in a new child."""
        import gc

        self.libc.prctl(1, _signal.SIGKILL, 0, 0, 0)  # dies with the zygote
        if _os.getppid() != self.id:
            _os._exit(0)
        _os.setpgid(0, 0)
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        self.socket.detach()
        # Moved to unused numbers first: their current ones may be among the targets.
        high = [_os.dup2(descriptor, _MIN_MOVED + place, False) for place, descriptor in enumerate(descriptors)]
        for descriptor, place in ((high[0], _IN), (high[1], _OUT), (high[2], 1), (high[2], 2)):
            _os.dup2(descriptor, place, False)
        _os.closerange(5, 1 << 16)
        random = _sys.modules.get("random")
        if random is not None:
            random.seed()  # otherwise siblings get the same numbers
        gc.enable()


def _main():
    global _IN, _OUT, _has_packages
    given = [int(number) for number in _sys.argv[1:]]
    low, high = min(given), max(given)
    for start, end in ((3, low), (low + 1, high), (high + 1, 1 << 16)):
        _os.closerange(start, end)
    _has_packages = "ONETOOL_LIBRARY" in _os.environ
    preload = _os.environ.get("ONETOOL_PRELOAD", "").split()
    _os.environ.clear()
    if _has_packages:
        _os.environ.update(_FOR_PACKAGES)
    _streams()
    _thread.stack_size(_THREAD_STACK)
    _files.install("")
    try:
        _libc()  # loaded early, dropped before the program runs
    except ImportError:
        pass  # the wall reports it
    # Searching all modules in each child would copy the pages of their names.
    _foreign_modules.extend(name for name in _sys.modules if name.partition(".")[0] in ("ctypes", "_ctypes"))
    if len(given) == 1:
        zygote = _Zygote(given[0])
        zygote.leave(zygote.serve(preload))
        del zygote
    else:
        import gc

        _IN, _OUT = given
        gc.enable()  # see `start.py`
    _serve()


_main()

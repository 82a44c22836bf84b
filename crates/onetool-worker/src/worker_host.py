# The worker host: imports one tool file and serves calls to it, JSON-RPC 2.0, one JSON object per line.
#
# The channel is the standard input and output that the process was started with, moved to private descriptors before
# anything else runs. Standard input is then empty and standard output goes to standard error, so whatever the tool
# prints, reads or closes cannot disturb the channel.
#
# Threads: the reader (receives messages, never runs a tool); the main thread, which runs a plain function when it is
# free; one more thread per further concurrent plain function (the other end limits how many); and, if the file has
# `async def` functions, an event loop. When the channel ends, the process group ends.

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
    """The caller abandoned this call."""


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
# The trace headers, by call.
_traces = {}
_tasks = {}
_loop = None
_pack = ""
_limit = 64 << 20
_forked = False
_running = None  # the id of the call on the main thread
_interrupt = None  # the id of the call on the main thread that must be interrupted
_sending = False  # whether the main thread is in the middle of a message
_cancelled = set()  # ids of queued calls that were abandoned before they began
_local = threading.local()
_turns = threading.Lock()  # guards the assignment of calls: the fields below, and those of every _ThreadCall
_main_is_free = False
_free_threads = []  # the queues of threads that wait for a call
_thread_calls = {}  # calls on threads other than the main one, by id
_MAX_FREE_THREADS = 32


class _ThreadCall:
    """A plain call on a separate thread."""

    __slots__ = ("thread", "cancelled", "shielded", "future")

    def __init__(self):
        self.thread = threading.get_ident()
        self.cancelled = False  # abandoned by the caller
        self.shielded = False  # must not be interrupted now
        self.future = None  # what it waits for on the event loop


# ---- the channel ----------------------------------------------------------------------------------------------------


def _send(data):
    global _sending
    on_main = threading.current_thread() is _main
    call = getattr(_local, "thread_call", None)
    if on_main:
        _sending = True
    elif call is not None:
        _shield(call)
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
    elif call is not None:
        _unshield(call)


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
    """Reports a message whose values Python cannot hold (a date in the year 10000) to the waiting side."""
    error = ValueError("a value could not be read: %s" % error)
    message = json.loads(line)
    if message.get("method") is not None:
        _active.discard(message.get("id"))
        _traces.pop(message.get("id"), None)
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
        if "trace" in message["params"]:
            _traces[message["id"]] = message["params"]["trace"]
        function = _functions.get(message["params"]["function"])
        if function is not None and _loop is not None and inspect.iscoroutinefunction(function):
            _loop.call_soon_threadsafe(_spawn, message)
        else:
            _hand_out(message)
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


def _hand_out(message):
    """Gives a plain call to the main thread if it is free, otherwise to another."""
    global _main_is_free
    with _turns:
        if _main_is_free:
            _main_is_free = False
            _queue.put(message)
            return
        box = _free_threads.pop() if _free_threads else None
    if box is None:
        box = queue.SimpleQueue()
        try:
            threading.Thread(target=_serve_on_thread, args=(box,), name="onetool-call", daemon=True).start()
        except RuntimeError:  # no more threads can be started: it waits for the main one
            _queue.put(message)
            return
    box.put(message)


def _free_main():
    """Lets the main thread take the next call. Called before it answers, so that a sequential caller stays on it."""
    global _main_is_free
    with _turns:
        _main_is_free = _queue.empty()


def _serve_on_thread(box):
    stays = True
    while stays:
        call_id, data = _serve_beside(box.get())
        with _turns:
            _thread_calls.pop(call_id, None)
            stays = len(_free_threads) < _MAX_FREE_THREADS
            if stays:
                _free_threads.append(box)  # before the answer, so that the call it triggers finds this thread
        _reply(call_id, data)


def _serve_beside(message):
    call_id, params = message["id"], message["params"]
    _local.call = call_id
    call = _ThreadCall()
    with _turns:
        _thread_calls[call_id] = call
        call.cancelled = call_id in _cancelled
    try:
        try:
            if call.cancelled:
                raise CallCancelled("the call was cancelled")
            _local.thread_call = call
            data = _answer(call_id, _call_function(call_id, params))
        except BaseException as error:
            data = _failure(call_id, error)
        _shield(call)
    except CallCancelled as error:
        data = _failure(call_id, error)
    _local.call = _local.thread_call = None
    return call_id, data


def _shield(call):
    """Prevents interrupts of the call from here on. If it was abandoned before, raises now."""
    with _turns:
        if call.cancelled:
            call.shielded = True
            _raise_in_thread(call.thread, None)
            raise CallCancelled("the call was cancelled")
        call.shielded = True


def _unshield(call):
    with _turns:
        if call.cancelled:
            raise CallCancelled("the call was cancelled")
        call.shielded = False


def _raise_in_thread(thread, kind):
    """Raises `kind` in a thread before its next instruction; `None` withdraws an exception not raised yet. Waits in the
    operating system or in an extension module are not interrupted."""
    try:
        import ctypes

        kind = ctypes.py_object(kind) if kind is not None else None
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), kind)
    except Exception:
        pass  # an interpreter without ctypes: the call continues until its worker is replaced


def _cancel_beside(call):
    with _turns:
        if call.cancelled:
            return
        call.cancelled = True
        future = call.future
        if not call.shielded and future is None:
            _raise_in_thread(call.thread, CallCancelled)
    if future is not None:
        future.cancel()


def _cancel(call_id):
    global _interrupt
    if call_id in _active:
        _cancelled.add(call_id)
    beside = _thread_calls.get(call_id)
    if beside is not None:
        _cancel_beside(beside)
    elif call_id == _running:
        _interrupt = call_id
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(_main.ident, signal.SIGINT)
    elif _loop is not None and call_id in _active:
        _loop.call_soon_threadsafe(_cancel_task, call_id)


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


def _call_function(call_id, params):
    function = _lookup(params)
    positional, named = _arguments(params, function)
    value = function(*positional, **named)
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        value = _finish_on_loop(call_id, value)
    return to_wire(value)


def _serve(message):
    global _running
    call_id, params = message["id"], message["params"]
    _local.call = call_id
    try:
        try:
            _running = call_id
            if call_id in _cancelled:
                raise CallCancelled("the call was cancelled")
            data = _answer(call_id, _call_function(call_id, params))
        finally:
            _running = None
    except BaseException as error:
        data = _failure(call_id, error)
    finally:
        _local.call = None
    _free_main()
    _reply(call_id, data)


def _reply(call_id, data):
    if len(data) > _limit:
        text = "the result is larger than a worker may send (%d of %d bytes)" % (len(data), _limit)
        data = _failure(call_id, ValueError(text), "too_large")
    _active.discard(call_id)
    _cancelled.discard(call_id)
    _traces.pop(call_id, None)
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
    """Returns the traceback without the frames of this host."""
    try:
        import traceback

        chained, seen = [error], set()
        while chained:
            one = chained.pop()
            if one is None or id(one) in seen or len(seen) > _MAX_FRAMES:
                continue
            seen.add(id(one))
            one.__traceback__ = _without_host(one.__traceback__)
            chained += [one.__cause__, one.__context__]
        lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-_MAX_FRAMES)
        return "".join(lines)[-_MAX_TEXT:]
    except BaseException:
        return None


def _without_host(frames):
    """Keeps only the frames of the tool and of the code it uses, so that the last one is where its author looks."""
    import types

    kept, host = [], globals()
    while frames is not None:
        if frames.tb_frame.f_globals is not host:
            kept.append(frames)
        frames = frames.tb_next
    for frame in reversed(kept):
        frames = types.TracebackType(frames, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return frames


_loop_lock = threading.Lock()


def _start_loop():
    global _loop, _call_variable
    with _loop_lock:
        if _loop is None:
            import asyncio
            import contextvars

            _call_variable = contextvars.ContextVar("onetool_call")
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="onetool-loop", daemon=True).start()
            _loop = loop
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
    import concurrent.futures

    loop = _start_loop()

    async def finish():
        _call_variable.set(call_id)
        return await _finish(value)

    future = asyncio.run_coroutine_threadsafe(finish(), loop)
    call = getattr(_local, "thread_call", None)
    if call is not None:
        with _turns:
            call.future = future
            if call.cancelled:
                future.cancel()
    try:
        return future.result()
    except CallCancelled:
        future.cancel()
        raise
    except concurrent.futures.CancelledError:
        raise CallCancelled("the call was cancelled") from None
    finally:
        if call is not None:
            with _turns:
                call.future = None


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
    """Imports the file as a module. Its own bytecode is not cached: two edits within a second must both take effect."""
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
    _free_main()
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

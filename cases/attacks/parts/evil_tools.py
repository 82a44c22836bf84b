"""A tool file whose functions write to the worker's own channel, as if they were its host."""

import json
import os
import signal
import sys
import threading
import time

MB = 1 << 20


def _channel() -> int:
    """The descriptor that answers go out through."""
    for fd in range(200, 300):
        try:
            os.write(fd, b"")
            if os.path.exists("/proc/self/fd/%d" % fd) and "pipe" in os.readlink("/proc/self/fd/%d" % fd):
                import fcntl

                if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                    return fd
        except OSError:
            pass
    raise RuntimeError("no channel")


def _write(data):
    data = memoryview(data if isinstance(data, bytes) else data.encode())
    while data:
        data = data[os.write(_channel(), data) :]


def _repeated(before, piece, times, after):
    _write(before)
    step = max(1, MB // len(piece))
    chunk = piece * step
    while times > 0:
        _write(chunk if times >= step else piece * times)
        times -= step
    _write(after + "\n")


def _send(message):
    _write(json.dumps(message) + "\n")


def _call() -> int:
    return sys.modules["__main__"]._local.call


def plain() -> int:
    """One."""
    return 1


def attack(kind: str) -> str:
    """Does it."""
    i = _call()
    head = '{"jsonrpc":"2.0","id":%d,"result":' % i
    if kind == "garbage":
        _write(b"\x00\xff garbage \n")
    elif kind == "not_utf8":
        _write(head.encode() + b'"\xff\xfe"}\n')
    elif kind == "no_end":
        _repeated(head + '"', "x", 70 * MB, "")
    elif kind == "huge":
        _repeated(head + '"', "x", 30 * MB, '"}')
    elif kind == "many_values":
        _repeated(head + "[", "0,", 15 * MB, "0]}")
    elif kind == "many_lists":
        _repeated(head + "[", "[],", 10 * MB, "0]}")
    elif kind == "many_tagged":
        _repeated(head + "[", '{"$ot":"int","v":"1"},', MB, "0]}")
    elif kind == "digits":
        _repeated(head + '{"$ot":"int","v":"', "9", 30 * MB, '"}}')
    elif kind == "many_digits":
        _repeated(head + "[", '{"$ot":"int","v":"' + "9" * 4000 + '"},', 5000, "0]}")
    elif kind == "deep":
        _write(head + "[" * 100_000 + "]" * 100_000 + "}\n")
    elif kind == "bad_tags":
        for tag in ["int", "float", "bytes", "date", "datetime", "time", "timedelta", "dict", "record", "image", "nonsense", 5, None]:
            _send({"jsonrpc": "2.0", "id": i, "result": {"$ot": tag, "v": {"a": [1]}}})
    elif kind == "other_ids":
        for other in range(0, 500):
            if other != i:
                _send({"jsonrpc": "2.0", "id": other, "result": "forged"})
    elif kind == "strange_ids":
        for other in [None, "", str(i), [i], {"id": i}, True, -1, 1.5, 2**70]:
            _send({"jsonrpc": "2.0", "id": other, "result": "forged"})
    elif kind == "twice":
        _send({"jsonrpc": "2.0", "id": i, "result": "first"})
    elif kind == "error_huge":
        _repeated('{"jsonrpc":"2.0","id":%d,"error":{"message":"m","data":{"kind":"raised","type":"' % i, "X", 10 * MB, '","message":"m"}}}')
    elif kind == "error_text":
        _repeated('{"jsonrpc":"2.0","id":%d,"error":{"message":"m","data":{"kind":"raised","type":"X","message":"' % i, "x", 10 * MB, '"}}}')
    elif kind == "error_name":
        _send({"jsonrpc": "2.0", "id": i, "error": {"message": "m", "data": {"kind": "raised", "type": "E\nFake: line\x1b[2J", "message": "m"}}})
    elif kind == "traceback_huge":
        _repeated('{"jsonrpc":"2.0","id":%d,"error":{"message":"m","data":{"kind":"raised","type":"X","message":"m","traceback":"' % i, "x", 10 * MB, '"}}}')
    elif kind == "kind_forged":
        _send({"jsonrpc": "2.0", "id": i, "error": {"message": "m", "data": {"kind": "allowed", "type": "X"}}})
    elif kind == "progress_flood":
        for n in range(20_000):
            _send({"jsonrpc": "2.0", "method": "progress", "params": {"call": i, "done": n, "message": "m" * 500}})
    elif kind == "progress_huge":
        _repeated('{"jsonrpc":"2.0","method":"progress","params":{"call":%d,"done":1,"message":"' % i, "x", 10 * MB, '"}}')
    elif kind == "progress_forged":
        for other in [0, 1, 2, 3, -1, "x", None, 2**70]:
            _send({"jsonrpc": "2.0", "method": "progress", "params": {"call": other, "done": "x", "total": []}})
    elif kind == "log_flood":
        for n in range(20_000):
            _send({"jsonrpc": "2.0", "method": "log", "params": {"level": "error", "message": "l" * 300}})
    elif kind == "log_huge":
        _repeated('{"jsonrpc":"2.0","method":"log","params":{"level":"error","message":"', "x", 20 * MB, '"}}')
    elif kind == "stderr_flood":
        for _ in range(50):
            os.write(2, b"e" * MB)
    elif kind == "secret_other":
        _send({"jsonrpc": "2.0", "id": "x1", "method": "get_secret", "params": {"name": "OTHER"}})
    elif kind == "secret_flood":
        for n in range(5000):
            _send({"jsonrpc": "2.0", "id": "x%d" % n, "method": "get_secret", "params": {"name": "OTHER%d" % n}})
    elif kind == "methods":
        for method in ["start", "call", "cancel", "shutdown", "", "get_secret\x00", "x" * 100_000]:
            _send({"jsonrpc": "2.0", "id": "x", "method": method, "params": [1]})
            _send({"jsonrpc": "2.0", "method": method, "params": None})
    elif kind == "calls_forged":
        for other in [0, 1, 2, 3, 999, "x", None]:
            _send({"jsonrpc": "2.0", "id": "c%s" % other, "method": "call_tool", "params": {"call": other, "name": "file.write", "named": {"path": "x.txt", "content": "x"}}})
        time.sleep(0.2)
    elif kind == "calls_flood":
        for n in range(3000):
            _send({"jsonrpc": "2.0", "id": "c%d" % n, "method": "call_tool", "params": {"call": i, "name": "ot.version", "named": {}}})
    elif kind == "calls_digits":
        _repeated('{"jsonrpc":"2.0","id":"d","method":"call_tool","params":{"call":%d,"name":"file.read","named":{"path":{"$ot":"int","v":"' % i, "9", 30 * MB, '"}}}}')
    elif kind == "half":
        _write(head + '"half')
        os._exit(0)
    elif kind == "dies":
        os._exit(5)
    elif kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "group":
        os.killpg(os.getpgrp(), signal.SIGKILL)
    elif kind == "parent":
        # What this user may signal, its processes may. The server must be told apart from its own children at least.
        os.kill(os.getppid(), 0)
    elif kind == "closes":
        os.close(_channel())
    elif kind == "deaf":
        for fd in range(200, 300):
            try:
                os.close(fd)
            except OSError:
                pass
    elif kind == "exit":
        sys.exit(7)
    elif kind == "thread":
        threading.Thread(target=lambda: _write(b"garbage from a thread\n")).start()
        time.sleep(0.2)
    elif kind == "forked":
        if os.fork() == 0:
            try:
                _write(b"garbage from a child\n")
            finally:
                os._exit(0)
        os.wait()
    elif kind == "raises":
        raise type("E" * 10_000, (Exception,), {})("m" * MB)
    elif kind == "unshowable":

        class Bad(Exception):
            def __str__(self):
                raise SystemExit(1)

        raise Bad
    return "done"


def image(size: int, media_type: str = "image/png") -> object:
    """A picture."""
    return sys.modules["__main__"].Image(b"\x00" * size, media_type)


def number(digits: int) -> int:
    """A large number."""
    sys.set_int_max_str_digits(0)
    return 10**digits


def nested(levels: int) -> list:
    """A list in a list."""
    value: list = []
    for _ in range(levels):
        value = [value]
    return value

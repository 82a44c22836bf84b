"""Checks that both Python sides of the wire format write what vectors.json says, and read it back.

Usage: check.py WORKERS_WIRE SANDBOXS_WIRE
"""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import importlib.util
import ipaddress
import json
import pathlib
import sys
import uuid


class Color(enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    THREE = 3


@dataclasses.dataclass
class Point:
    x: int
    y: str


Pair = collections.namedtuple("Pair", "a b")


def list_in_itself():
    made = [1]
    made.append(made)
    return made


def dict_in_itself():
    made = {}
    made["a"] = made
    return made


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


worker = load("worker_wire", sys.argv[1])
sandbox = load("sandbox_wire", sys.argv[2])


def sandbox_form(value):
    pieces = []
    writer = sandbox.Writer(pieces.append, 1 << 20, 1 << 20)
    writer.value(value)
    writer.flush()
    return json.loads(b"".join(pieces))


def worker_form(value):
    return json.loads(worker._encode(worker.to_wire(value)))


SIDES = {
    "worker": (worker_form, lambda wire: worker._decode(json.dumps(wire))),
    "sandbox": (sandbox_form, sandbox.decode),
}

failures = 0
for vector in json.loads((pathlib.Path(__file__).parent / "vectors.json").read_text(encoding="utf-8")):
    for side, (write, read) in SIDES.items():
        written = write(eval(vector["python"]))
        if written != vector["wire"] or type(written) is not type(vector["wire"]):
            failures += 1
            print("%s writes %s as %r, not as %r" % (side, vector["python"], written, vector["wire"]))
        # A record of another process keeps its fields, and text of an object its text; both may change their type's name.
        again = write(read(vector["wire"]))
        if "opaque" not in str(vector["wire"]) and "'t'" not in str(vector["wire"]) and again != vector["wire"]:
            failures += 1
            print("%s reads %r and writes it as %r" % (side, vector["wire"], again))
sys.exit(failures > 0)

import re

print(re.findall(r"\d+", "a1 b22 c333"), re.sub(r"\s+", " ", "a  b \n c"))
# %%
import re

m = re.match(r"(\w+)@(\w+)\.com", "user@site.com")
print(m.group(1), m.groups(), m.span())
# %%
import re

print(re.split(r"[,;]\s*", "a, b;c"), bool(re.fullmatch(r"[a-z]+", "abc")), re.search("x", "abc"))
# %%
import re

m = re.search(r"(?P<year>\d{4})-(?P<month>\d\d)", "on 2024-02-29")
print(m.groupdict(), m["year"])
# %%
import re

print(re.sub(r"(\w+) (\w+)", r"\2 \1", "hello world"), re.sub(r"\d", lambda m: str(int(m[0]) * 2), "a1b2"))
# %%
import re

pattern = re.compile(r"^(\w+):\s*(.*)$", re.MULTILINE | re.IGNORECASE)
print(pattern.findall("Name: Ann\nAge: 41"))
# %%
from datetime import date, datetime, timedelta

print(date(2024, 2, 29) + timedelta(days=366), (date(2024, 3, 1) - date(2024, 2, 1)).days)
# %%
from datetime import datetime

d = datetime(2024, 2, 29, 13, 5, 9)
print(d.isoformat(), d.strftime("%Y/%m/%d %H:%M"), d.weekday(), d.date())
# %%
from datetime import datetime

print(datetime.strptime("29 Feb 2024", "%d %b %Y"), datetime.fromisoformat("2024-01-01T10:00:00"))
# %%
from datetime import timedelta

t = timedelta(hours=25, minutes=61)
print(t, t.days, t.seconds, t.total_seconds(), timedelta(days=-1))
# %%
from datetime import datetime, timezone, timedelta

d = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)
print(d, d.astimezone(timezone(timedelta(hours=2))), d.timestamp())
# %%
import calendar

print(calendar.isleap(2024), calendar.monthrange(2023, 2), calendar.month_name[3])
# %%
import itertools

print(list(itertools.permutations("abc", 2)), list(itertools.combinations([1, 2, 3], 2)))
# %%
import itertools

print(list(itertools.chain([1], [2, 3])), list(itertools.accumulate([1, 2, 3])), list(itertools.product("ab", [1, 2])))
# %%
import itertools

for key, group in itertools.groupby(sorted(["ab", "ac", "bc"]), key=lambda w: w[0]):
    print(key, list(group))
# %%
import itertools

print(list(itertools.zip_longest([1, 2], "a", fillvalue="-")), list(itertools.takewhile(lambda n: n < 3, [1, 2, 3, 1])))
# %%
import heapq

h = [5, 1, 4]
heapq.heapify(h)
heapq.heappush(h, 2)
print(heapq.heappop(h), heapq.nsmallest(2, h), heapq.nlargest(1, h))
# %%
import bisect

items = [1, 3, 5]
bisect.insort(items, 4)
print(items, bisect.bisect_left(items, 3), bisect.bisect(items, 3))
# %%
import random

random.seed(7)
print(all(1 <= random.randint(1, 6) <= 6 for _ in range(100)), random.choice([3]) == 3)
# %%
import random

random.seed(42)
print(random.randint(1, 100), round(random.random(), 6), random.sample(range(10), 3))
# %%
import string

print(string.ascii_lowercase, string.digits, string.Template("$who likes $what").substitute(who="tim", what="tea"))
# %%
import textwrap

print(textwrap.fill("the quick brown fox jumps over the lazy dog", 20))
print(textwrap.dedent("    a\n      b"), textwrap.shorten("hello there world", 12))
# %%
import hashlib

print(hashlib.sha256(b"hello").hexdigest()[:16], hashlib.md5(b"").hexdigest())
# %%
import base64

print(base64.b64encode(b"hello"), base64.b64decode("aGVsbG8="), base64.urlsafe_b64encode(b"\xff\xfe"))
# %%
import copy

a = {"x": [1, 2]}
b, c = copy.copy(a), copy.deepcopy(a)
a["x"].append(3)
print(b, c)
# %%
import operator

print(sorted([("a", 3), ("b", 1)], key=operator.itemgetter(1)), operator.add(1, 2))
# %%
import csv, io

rows = list(csv.reader(io.StringIO('a,b\n1,"x, y"\n')))
print(rows)
# %%
import csv, io

out = io.StringIO()
writer = csv.DictWriter(out, fieldnames=["name", "n"])
writer.writeheader()
writer.writerow({"name": "Ann, B.", "n": 1})
print(out.getvalue())
# %%
import io

f = io.StringIO("one\ntwo\n")
print(f.readline(), f.read(), f.getvalue().count("\n"))
# %%
import struct

print(struct.pack("<IH", 1, 2), struct.unpack(">H", b"\x01\x00"), struct.calcsize("<bI"))
# %%
import uuid

print(uuid.UUID("12345678123456781234567812345678"), uuid.uuid5(uuid.NAMESPACE_DNS, "example.com"))
# %%
import pprint

pprint.pprint({"b": list(range(3)), "a": {"nested": True}})
# %%
import urllib.parse

print(urllib.parse.quote("a b&c"), urllib.parse.urlencode({"q": "x y"}), urllib.parse.urlparse("http://h/p?q=1").netloc)
# %%
import html

print(html.escape("<a href='x'>"), html.unescape("&lt;&eacute;"))
# %%
import xml.etree.ElementTree as ET

root = ET.fromstring("<r><i n='1'>a</i><i n='2'>b</i></r>")
print([(i.get("n"), i.text) for i in root.findall("i")])
# %%
import sqlite3

db = sqlite3.connect(":memory:")
db.execute("create table t (a int, b text)")
db.executemany("insert into t values (?, ?)", [(1, "x"), (2, "y")])
print(db.execute("select sum(a), max(b) from t").fetchone())
# %%
import zlib

data = b"aaaa" * 100
print(len(zlib.compress(data)) < len(data), zlib.decompress(zlib.compress(data)) == data, zlib.crc32(b"hi"))
# %%
import difflib

print("\n".join(difflib.unified_diff(["a", "b"], ["a", "c"], lineterm="")))
# %%
import difflib

print(difflib.get_close_matches("appel", ["ape", "apple", "peach"]))
# %%
import timeit, time

print(timeit.timeit("1+1", number=10) >= 0, time.time() > 1_600_000_000, time.strftime("%Y", time.gmtime(0)))
# %%
import sys

print(sys.version_info >= (3, 10), sys.maxsize > 2 ** 32, sys.byteorder)
# %%
import types, inspect


def f(a, b=1, *c, d, **e): ...


print(inspect.signature(f), isinstance(f, types.FunctionType))
# %%
import ast

print(ast.literal_eval("{'a': [1, 2.5, None]}"), ast.dump(ast.parse("1+x", mode="eval").body)[:5])
# %%
import shlex

print(shlex.split("cp 'a b' c"), shlex.quote("a b"))
# %%
import fnmatch

print(fnmatch.filter(["a.py", "b.txt"], "*.py"), fnmatch.fnmatch("x.tar.gz", "*.gz"))
# %%
import secrets

print(len(secrets.token_hex(8)), secrets.compare_digest("a", "a"))
# %%
import statistics

print(statistics.stdev([1, 2, 3, 4]), statistics.quantiles([1, 2, 3, 4], n=4), statistics.variance([2, 4]))
# %%
import array

a = array.array("i", [1, 2, 3])
a.append(4)
print(a, a.tolist(), a.itemsize)
# %%
import contextlib, io

buffer = io.StringIO()
with contextlib.redirect_stdout(buffer):
    print("captured")
print(repr(buffer.getvalue()))
# %%
import logging

logging.getLogger("x").debug("not shown")
print(logging.getLevelName(30))
# %%
import collections.abc

print(isinstance([], collections.abc.Sequence), isinstance({}, collections.abc.Mapping), isinstance((x for x in []), collections.abc.Iterator))
# %%
import configparser

c = configparser.ConfigParser()
c.read_string("[a]\nx = 1\n[b]\ny = yes\n")
print(c.sections(), c.getint("a", "x"), c.getboolean("b", "y"))
# %%
import ipaddress

print(ipaddress.ip_address("10.0.0.1") in ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("10.0.0.0/30").num_addresses)
# %%
import unicodedata

print(unicodedata.normalize("NFD", "é").encode("ascii", "ignore"), unicodedata.name("é"))
# %%
import colorsys, cmath

print([round(c, 3) for c in colorsys.rgb_to_hsv(1, 0.5, 0)], cmath.sqrt(-4))
# %%
from datetime import datetime

d = datetime(2024, 1, 2, 3, 4, 5, 678901)
print(d.strftime("%H:%M:%S.%f")[:-3], f"{d:%S.%f}", "{:%f}".format(d))
# %%
import json

for text in ("{", "[1,]", "{'a': 1}", "", "nul"):
    try:
        json.loads(text)
    except json.JSONDecodeError as e:
        print(e, e.pos)
# %%
"""What this program is for."""

print(__doc__)

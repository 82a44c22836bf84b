ages = {"ann": 41, "bob": 25}
ages["cy"] = 33
print(ages, len(ages), "bob" in ages, ages.get("dee", 0))
# %%
d = {"a": 1, "b": 2}
for key, value in d.items():
    print(key, "->", value)
# %%
counts = {}
for word in "a b a c a b".split():
    counts[word] = counts.get(word, 0) + 1
print(sorted(counts.items(), key=lambda p: -p[1]))
# %%
print({k: v for k, v in zip("abc", range(3))}, {n: n * n for n in range(4) if n})
# %%
a = {"x": 1, "y": 2}
b = {"y": 3, "z": 4}
print({**a, **b}, a | b)
# %%
d = {"a": 1}
d.update(b=2)
print(d.pop("a"), d.pop("zz", None), d, d.setdefault("c", []), d)
# %%
groups = {}
for name in ["apple", "avocado", "banana"]:
    groups.setdefault(name[0], []).append(name)
print(groups)
# %%
inverted = {v: k for k, v in {"a": 1, "b": 2}.items()}
print(inverted, list(inverted), list(inverted.values()))
# %%
try:
    {}["missing"]
except KeyError as error:
    print("KeyError:", error, error.args[0])
# %%
config = {"db": {"host": "x", "ports": [1, 2]}}
print(config["db"]["ports"][-1], config.get("cache", {}).get("size", "none"))
# %%
print(max({"a": 3, "b": 9}, key={"a": 3, "b": 9}.get), sorted({"b": 1, "a": 2}))
# %%
d = dict([("one", 1), ("two", 2)])
print(d, dict(three=3), dict.fromkeys("ab", 0))
# %%
s = {1, 2, 3}
t = {3, 4}
print(s & t, s | t, s - t, s ^ t, s <= {1, 2, 3, 4})
# %%
s = set("banana")
print(sorted(s), len(s), "n" in s, s.isdisjoint("xyz"))
# %%
s = {1}
s.add(2)
s.discard(9)
s.update([3, 4])
print(sorted(s), frozenset([1, 1, 2]))
# %%
people = [{"name": "Ann", "age": 41}, {"name": "Bob", "age": 25}]
print(sorted(people, key=lambda p: p["age"])[0]["name"], sum(p["age"] for p in people))
# %%
d = {"b": 1, "a": 2}
print(dict(sorted(d.items())), dict(sorted(d.items(), key=lambda p: p[1], reverse=True)))
# %%
from collections import Counter

print(Counter("mississippi").most_common(2), Counter(a=1) + Counter(a=2, b=1))
# %%
from collections import defaultdict

d = defaultdict(list)
for i in range(5):
    d[i % 2].append(i)
print(dict(d))
# %%
from collections import OrderedDict, ChainMap

print(list(OrderedDict(b=1, a=2)), ChainMap({"a": 1}, {"a": 2, "b": 3})["b"])
# %%
from collections import namedtuple

Point = namedtuple("Point", "x y")
p = Point(1, 2)
print(p, p.x + p.y, p._replace(x=5), p == (1, 2))
# %%
from collections import deque

q = deque([1, 2, 3], maxlen=3)
q.append(4)
q.appendleft(0)
print(list(q), q[0])
# %%
import json

print(json.dumps({"b": [1, None, True], "a": "é"}, sort_keys=True), json.dumps({"a": "é"}, ensure_ascii=False))
# %%
import json

print(json.dumps({"a": [1, 2], "b": {}}, indent=2))
# %%
import json

data = json.loads('{"x": [1, 2.5, null], "y": {"z": false}}')
print(data, type(data["x"][1]).__name__)
# %%
import json

try:
    json.loads("{bad}")
except json.JSONDecodeError as error:
    print(error.msg, error.lineno, error.colno)
# %%
table = {}
table[(0, 1)] = "pair"
table[None] = "nothing"
print(table, table[0, 1])
# %%
d = {"a": 1, "b": 2, "c": 3}
for key in list(d):
    if d[key] > 1:
        del d[key]
print(d)
# %%
def merge(a, b):
    out = dict(a)
    for key, value in b.items():
        if isinstance(value, dict) and isinstance(out.get(key), dict):
            out[key] = merge(out[key], value)
        else:
            out[key] = value
    return out


print(merge({"a": {"x": 1}, "b": 1}, {"a": {"y": 2}, "c": 3}))
# %%
rows = [("n", 1), ("m", 2), ("n", 3)]
totals = {}
for key, amount in rows:
    totals[key] = totals.get(key, 0) + amount
print("\n".join(f"{k:<3}{v:>4}" for k, v in sorted(totals.items())))
# %%
try:
    {1: "a"}[3]
except KeyError as e:
    print(f"Key {e}", e.args[0] == 3)
# %%
for change in (lambda d: d.pop(7), lambda d: d[None]):
    try:
        change({1: 2})
    except LookupError as e:
        print(type(e).__name__, e, e.args)
# %%
try:
    {1}.remove(2)
except KeyError as e:
    print(e.args)

def kind(value):
    match value:
        case 0:
            return "zero"
        case int(n) if n > 0:
            return f"positive {n}"
        case [x, y]:
            return f"pair {x} {y}"
        case {"name": name}:
            return f"named {name}"
        case str():
            return "text"
        case _:
            return "other"


print([kind(v) for v in (0, 5, [1, 2], {"name": "Ann"}, "x", 2.5)])
# %%
command = "go north".split()
match command:
    case ["go", ("north" | "south") as direction]:
        print("going", direction)
    case _:
        print("?")
# %%
import asyncio


async def work(n):
    await asyncio.sleep(0)
    return n * 2


async def main():
    return await asyncio.gather(*(work(n) for n in range(3)))


print(asyncio.run(main()))
# %%
import asyncio


async def producer(queue):
    for i in range(3):
        await queue.put(i)
    await queue.put(None)


async def main():
    queue = asyncio.Queue()
    task = asyncio.create_task(producer(queue))
    seen = []
    while (item := await queue.get()) is not None:
        seen.append(item)
    await task
    print(seen)


asyncio.run(main())
# %%
import asyncio


async def slow():
    await asyncio.sleep(10)


async def main():
    try:
        await asyncio.wait_for(slow(), 0.01)
    except asyncio.TimeoutError:
        print("too slow")


asyncio.run(main())
# %%
import asyncio


async def numbers():
    for n in range(3):
        yield n


async def main():
    print([n async for n in numbers()])


asyncio.run(main())
# %%
import threading

total, lock = 0, threading.Lock()


def add():
    global total
    for _ in range(100):
        with lock:
            total += 1


threads = [threading.Thread(target=add) for _ in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(total)
# %%
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(2) as pool:
    print(list(pool.map(lambda n: n ** 2, range(5))))
# %%
value = 5
print(f"{value=}, {value + 1 = }, {value!s:>4}, {value:{3}d}|")
# %%
print(f"{'nested ' + f'{1 + 1}'}", f"{{literal}}", f"{3.14159:.2f}")
# %%
def positional(a, /, b, *, c):
    return a, b, c


print(positional(1, b=2, c=3))
try:
    positional(a=1, b=2, c=3)
except TypeError:
    print("positional only")
# %%
data = {"a": {"b": [10, 20]}}
if (inner := data.get("a")) and (items := inner.get("b")):
    print(items[-1])
# %%
numbers: list[int] = [1, 2]
lookup: dict[str, int | None] = {"a": None}
print(numbers, lookup)
# %%
first, (second, third), *others = 1, (2, 3), 4, 5
print(first, second, third, others)
# %%
print(*[1, 2, 3], sep="-", end="!\n")
# %%
print({**{"a": 1}, "b": 2}, [*"ab", *(1, 2)], (*range(2),))
# %%
a = b = []
a += [1]
print(b, a is b)
x = y = 0
x += 1
print(x, y)
# %%
try:
    raise ExceptionGroup("many", [ValueError("a"), TypeError("b")])
except ExceptionGroup as group:
    print(group.message, [type(e).__name__ for e in group.exceptions])
# %%
with open("note.txt", "w") as f:
    f.write("one\ntwo\nthree\n")
with open("note.txt") as f:
    print([line.strip() for line in f], f.closed)
# %%
from pathlib import Path

p = Path("data") / "x.txt"
p.parent.mkdir(exist_ok=True)
p.write_text("hi\n", encoding="utf-8")
print(p.read_text(), p.name, p.stem, p.suffix, p.exists(), p.parent)
p.unlink()
p.parent.rmdir()
# %%
import json

with open("c.json", "w") as f:
    json.dump({"a": [1, 2]}, f)
with open("c.json") as f:
    print(json.load(f)["a"])
# %%
import os

os.makedirs("d/e", exist_ok=True)
with open("d/e/f.txt", "w") as f:
    f.write("x" * 10)
print(os.path.getsize("d/e/f.txt"), os.listdir("d"), os.path.isfile("d/e/f.txt"), os.path.splitext("a.tar.gz"))
# %%
import csv

with open("t.csv", "w", newline="") as f:
    csv.writer(f).writerows([["n", "v"], ["a", 1], ["b", 2]])
with open("t.csv", newline="") as f:
    print(sum(int(row["v"]) for row in csv.DictReader(f)))
# %%
try:
    open("missing.txt")
except FileNotFoundError as error:
    print(error, error.errno)
# %%
import glob, os

for n in range(3):
    with open(f"g{n}.log", "w") as f:
        print(n, file=f)
print(sorted(glob.glob("g*.log")), sum(int(open(p).read()) for p in glob.glob("g*.log")))
# %%
import shutil, os

with open("src.txt", "w") as f:
    f.write("copy me")
shutil.copy("src.txt", "dst.txt")
os.rename("dst.txt", "moved.txt")
print(open("moved.txt").read(), os.path.exists("dst.txt"))
# %%
with open("bin.dat", "wb") as f:
    f.write(bytes(range(10)))
with open("bin.dat", "rb") as f:
    f.seek(5)
    print(f.read(2), f.tell())
# %%
with open("log.txt", "a") as f:
    f.write("first\n")
with open("log.txt", "a") as f:
    f.write("second\n")
print(open("log.txt").read().splitlines())
# %%
import os

for root, folders, names in os.walk("."):
    folders.sort()
    for name in sorted(names):
        if name.endswith(".walk"):
            print(os.path.join(root, name))
print("walked")
# %%
import tempfile, os

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "a.txt")
    with open(path, "w") as f:
        f.write("temporary")
    print(open(path).read())
print(os.path.exists(path))
# %%
import pickle

with open("p.pkl", "wb") as f:
    pickle.dump({"a": (1, 2)}, f)
with open("p.pkl", "rb") as f:
    print(pickle.load(f))
# %%
import zipfile

with zipfile.ZipFile("z.zip", "w") as z:
    z.writestr("a.txt", "inside")
with zipfile.ZipFile("z.zip") as z:
    print(z.namelist(), z.read("a.txt"))
# %%
import gzip

with gzip.open("g.gz", "wt") as f:
    f.write("squeezed")
print(gzip.open("g.gz", "rt").read())
# %%
import io

print(io.BytesIO(b"abc").read(2), io.StringIO("x\ny").readlines())
# %%
lines = ["b 2", "a 1"]
with open("sorted.txt", "w") as f:
    f.writelines(line + "\n" for line in sorted(lines))
for number, line in enumerate(open("sorted.txt"), 1):
    print(number, line, end="")
# %%
with open("upd.txt", "w+") as f:
    f.write("abc")
    f.seek(0)
    print(f.read())
with open("upd.txt", "r+") as f:
    f.write("X")
print(open("upd.txt").read())
# %%
from pathlib import Path

for n in "ab":
    Path(f"{n}.md").write_text(n)
print(sorted(p.name for p in Path(".").glob("*.md")), Path("a.md").stat().st_size)

import csv

with open("sales.csv", "w", newline="") as f:
    writer = csv.writer(f)
    writer.writerow(["id", "region", "amount"])
    writer.writerows([[1, "north", 10.5], [2, "south", 20.25], [3, "north", 5]])
with open("sales.csv") as f:
    rows = list(csv.DictReader(f))
total = sum(float(row["amount"]) for row in rows)
print(f"{len(rows)} rows, total {total:.2f}", rows[0])
# %%
import os

os.makedirs("tree/a/b", exist_ok=True)
for name in ("tree/one.txt", "tree/a/two.txt", "tree/a/b/three.md"):
    with open(name, "w") as f:
        f.write(name)
for root, dirs, files in os.walk("tree"):
    dirs.sort()
    for name in sorted(files):
        path = os.path.join(root, name)
        print(path, os.path.getsize(path))
# %%
from pathlib import Path

base = Path("site")
(base / "posts").mkdir(parents=True)
for number in range(3):
    (base / "posts" / f"post{number}.md").write_text(f"# Post {number}\n")
(base / "index.html").write_text("<h1>hi</h1>")
for path in sorted(base.rglob("*.md")):
    print(path, path.stem, path.suffix, path.parent, path.stat().st_size)
print(sorted(p.name for p in base.iterdir()), [p.is_dir() for p in sorted(base.iterdir())])
# %%
import glob, os

os.makedirs("globbed/deep", exist_ok=True)
for name in ("a.txt", "b.txt", "c.csv", "deep/d.txt"):
    open(os.path.join("globbed", name), "w").close()
print(sorted(glob.glob("globbed/*.txt")), sorted(glob.glob("globbed/**/*.txt", recursive=True)), glob.glob("globbed/?.csv"))
# %%
import json

with open("config.json", "w") as f:
    json.dump({"name": "x", "n": 3}, f)
with open("config.json") as f:
    config = json.load(f)
config["new"] = [1, 2, {"a": None}]
with open("config.json", "w") as f:
    json.dump(config, f, indent=2, sort_keys=True)
print(open("config.json").read())
# %%
import os, shutil

os.makedirs("docs/sub", exist_ok=True)
for name in ("docs/a.md", "docs/sub/b.md"):
    with open(name, "w") as f:
        f.write("text of " + name)
shutil.copytree("docs", "docs_copy")
shutil.copy("docs/a.md", "docs_copy/c.md")
shutil.copyfile("docs/a.md", "docs_copy/d.md")
shutil.move("docs_copy/c.md", "docs_copy/sub/moved.md")
print(sorted(os.listdir("docs_copy")), sorted(os.listdir("docs_copy/sub")), open("docs_copy/sub/moved.md").read())
shutil.rmtree("docs_copy")
print(os.path.exists("docs_copy"), os.path.exists("docs"))
# %%
import os, tempfile

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x.txt")
    with open(path, "w") as f:
        f.write("hello")
    print(open(path).read(), os.listdir(folder))
print(os.path.exists(path))
# %%
import os, tempfile

with tempfile.NamedTemporaryFile("w+", suffix=".txt", delete=False) as f:
    f.write("line1\nline2\n")
    name = f.name
print(name.endswith(".txt"), open(name).readlines())
os.unlink(name)
print(os.path.exists(name))
# %%
import os, tempfile

fd, path = tempfile.mkstemp(suffix=".csv")
with os.fdopen(fd, "w") as f:
    f.write("a,b\n1,2\n")
print(open(path).read(), path.endswith(".csv"))
fd, other = tempfile.mkstemp()
os.write(fd, b"written by number")
os.close(fd)
print(open(other, "rb").read())
os.remove(path)
os.remove(other)
print(os.path.exists(path), os.path.exists(other))
# %%
with open("appended.txt", "a") as f:
    f.write("one\n")
with open("appended.txt", "a") as f:
    print("two", file=f)
with open("appended.txt") as f:
    print(f.readlines(), f.tell())
# %%
with open("notes.txt", "w") as f:
    f.write("The quick brown fox\njumps over the lazy dog\n")
with open("notes.txt", "r+") as f:
    text = f.read()
    f.seek(0)
    f.write(text.upper())
    f.truncate()
with open("notes.txt") as f:
    for number, line in enumerate(f, 1):
        print(number, line.rstrip())
# %%
import struct

with open("data.bin", "wb") as f:
    f.write(bytes(range(10)))
with open("data.bin", "rb") as f:
    f.seek(4)
    print(f.read(3), f.tell())
    f.seek(-2, 2)
    print(f.read(), f.read())
print(struct.unpack("<IH", open("data.bin", "rb").read()[:6]))
# %%
import os

os.makedirs("x/y/z", exist_ok=True)
os.makedirs("x/y/z", exist_ok=True)
try:
    os.makedirs("x/y/z")
except FileExistsError as error:
    print(type(error).__name__, error.errno, error.filename, error)
with open("x/y/z/f.txt", "w") as f:
    f.write("1")
try:
    os.rmdir("x/y/z")
except OSError as error:
    print(type(error).__name__, error.errno, error)
os.rename("x/y/z/f.txt", "x/y/g.txt")
print(sorted(os.listdir("x/y")))
os.remove("x/y/g.txt")
os.removedirs("x/y/z")
print(os.path.exists("x"))
# %%
for path, mode in (("missing.txt", "r"), ("nowhere/missing.txt", "w"), (".", "r")):
    try:
        open(path, mode)
    except OSError as error:
        print(type(error).__name__, error, error.errno, error.filename, error.strerror)
# %%
from pathlib import Path

folder = Path("new") / "sub"
folder.mkdir(parents=True)
(folder / "a.txt").write_text("hällo\n", encoding="utf-8")
print((folder / "a.txt").read_text(encoding="utf-8"), (folder / "a.txt").read_bytes())
(folder / "a.txt").rename(folder / "b.txt")
print([path.name for path in folder.iterdir()], (folder / "b.txt").exists(), folder.is_dir())
(folder / "b.txt").unlink()
(folder / "c").unlink(missing_ok=True)
folder.rmdir()
folder.parent.rmdir()
print(Path("new").exists())
# %%
from pathlib import Path

print(Path.cwd() == Path(".").resolve(), Path("a/../b").resolve().name, Path("x/y").absolute().relative_to(Path.cwd()))
print(Path("docs/a.md").with_suffix(".txt"), Path("a/b.tar.gz").suffixes, Path("a") / "b" / ".." / "c", Path("/a/b").parts)
# %%
import csv

with open("w.csv", "w", newline="") as f:
    writer = csv.DictWriter(f, fieldnames=["n", "square"])
    writer.writeheader()
    for n in range(3):
        writer.writerow({"n": n, "square": n * n})
print(open("w.csv", newline="").read().encode())
# %%
import os, zipfile

with open("zipped.txt", "w") as f:
    f.write("content")
with zipfile.ZipFile("archive.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.write("zipped.txt")
    archive.writestr("other.txt", "more")
with zipfile.ZipFile("archive.zip") as archive:
    print(archive.namelist(), archive.read("other.txt"))
    archive.extractall("extracted")
print(sorted(os.listdir("extracted")), open("extracted/zipped.txt").read())
# %%
import gzip, tarfile

with gzip.open("n.gz", "wt") as f:
    f.write("zipped text\n" * 3)
with gzip.open("n.gz", "rt") as f:
    print(f.read())
with open("tarred.txt", "w") as f:
    f.write("in a tar")
with tarfile.open("t.tar.gz", "w:gz") as archive:
    archive.add("tarred.txt")
with tarfile.open("t.tar.gz") as archive:
    print(archive.getnames(), archive.extractfile("tarred.txt").read())
# %%
import pickle

with open("object.pkl", "wb") as f:
    pickle.dump({"a": [1, 2], "t": (1,)}, f)
with open("object.pkl", "rb") as f:
    print(pickle.load(f))
# %%
import configparser

with open("settings.ini", "w") as f:
    f.write("[db]\nhost = localhost\nport = 5432\n")
parser = configparser.ConfigParser()
print(parser.read("settings.ini"), parser.sections(), parser["db"]["host"], parser.getint("db", "port"))
# %%
import xml.etree.ElementTree as ET

with open("items.xml", "w") as f:
    f.write('<r><item id="1">a</item><item id="2">b</item></r>')
root = ET.parse("items.xml").getroot()
print([(e.tag, e.get("id"), e.text) for e in root.iter("item")])
ET.SubElement(root, "item", id="9").text = "new"
ET.ElementTree(root).write("more.xml")
print(open("more.xml").read())
# %%
import os

with open("status.txt", "w") as f:
    f.write("12345")
status = os.stat("status.txt")
print(status.st_size, os.path.getsize("status.txt"), status.st_mtime > 0, os.access("status.txt", os.R_OK))
os.makedirs("scanned/d", exist_ok=True)
open("scanned/f", "w").close()
with os.scandir("scanned") as entries:
    print(sorted((e.name, e.is_file(), e.is_dir(), e.stat().st_size) for e in entries if e.is_file()))
# %%
import os

os.makedirs("work", exist_ok=True)
with open("work/in.txt", "w") as f:
    f.write("inside")
os.chdir("work")
print(os.listdir(), open("in.txt").read(), os.path.basename(os.getcwd()))
os.chdir("..")
print(os.path.exists("work/in.txt"))
# %%
import fileinput, filecmp, linecache

with open("lines.txt", "w") as f:
    f.writelines(["a\n", "b\n", "c\n"])
for line in fileinput.input("lines.txt"):
    print(fileinput.lineno(), line, end="")
print(linecache.getline("lines.txt", 2), filecmp.cmp("lines.txt", "lines.txt"))
# %%
with open("u16.txt", "w", encoding="utf-16") as f:
    f.write("é")
print(open("u16.txt", encoding="utf-16").read())
with open("l1.txt", "w", encoding="latin-1") as f:
    f.write("é")
try:
    open("l1.txt", encoding="utf-8").read()
except UnicodeDecodeError as error:
    print(error)
print(open("l1.txt", encoding="utf-8", errors="replace").read())
# %%
with open("crlf.txt", "wb") as f:
    f.write(b"one\r\ntwo\r\n")
print(open("crlf.txt").read().encode(), open("crlf.txt", newline="").read().encode(), open("crlf.txt").readlines())
with open("out.crlf", "w", newline="\r\n") as f:
    f.write("a\nb\n")
print(open("out.crlf", "rb").read())
# %%
f = open("open.txt", "w")
f.write("not closed")
f.flush()
print(open("open.txt").read(), f.closed, f.name, f.mode)
f.close()
print(f.closed)
# %%
def chunks(path, size=4):
    with open(path, "rb") as f:
        while chunk := f.read(size):
            yield chunk


with open("chunked.txt", "w") as f:
    f.write("0123456789")
print(list(chunks("chunked.txt")))
# %%
import json

with open("records.jsonl", "w") as f:
    for number in range(3):
        f.write(json.dumps({"id": number, "even": number % 2 == 0}) + "\n")
with open("records.jsonl") as f:
    print([json.loads(line)["even"] for line in f if line.strip()])
# %%
import importlib, sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, "")
Path("own_module.py").write_text("FACTOR = 3\n\n\ndef scaled(values):\n    return [FACTOR * value for value in values]\n")
Path("own_package").mkdir()
Path("own_package/__init__.py").write_text("from .part import greet\n")
Path("own_package/part.py").write_text("def greet(name):\n    return f'hello {name}'\n")
importlib.invalidate_caches()
import own_module
from own_package import greet
from own_package.part import greet as again

print(own_module.scaled([1, 2]), own_module.__name__, greet("you"), again is greet)
# %%
from pathlib import Path

text = Path("missing.cfg").read_text() if Path("missing.cfg").exists() else "default"
path = Path("touched")
path.touch()
path.touch(exist_ok=True)
print(text, path.exists(), path.stat().st_size, path.is_file(), sorted(Path(".").glob("touch*")))
# %%
import os
import shutil

print(shutil.which("no-such-program-anywhere"), os.path.splitext("a/b.tar.gz"), os.path.relpath("docs/a.md", "docs"))
print(os.path.normpath("a/./b/../c"), os.path.commonpath(["a/b", "a/c"]), os.path.isabs("a"), os.path.split("a/b"))

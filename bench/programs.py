"""Runs the programs of a folder: how many print what `python3` prints, and how long they take.

    python3 bench/programs.py --onetool target/release/onetool --folder path/to/TheAlgorithms/Python
    python3 bench/programs.py --onetool target/release/onetool --package algorithms==1.0.1

Every Python file below the folder, or in a package that pip downloads into a temporary folder, is a program if it is
self-contained: it imports only the standard library, and `python3` runs it. The examples in its docstrings are
appended, so that it has something to print. Exits with 1 if one prints something else.
"""

import argparse
import ast
import doctest
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from stdio_client import ServerProblem, StdioClient

# Programs that take `python3` longer are skipped.
LONGEST_SECONDS = 5
# Programs with these words are skipped: they wait for input, draw, or print something different each time.
LEFT_OUT = ("input(", "sys.stdin", "turtle", "tkinter", "sys.argv", "random", "urlopen", "time()", "perf_counter", "timeit")


def imported(tree: ast.Module) -> set[str]:
    """Returns the top-level names of the imported modules; a relative import is an empty name."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("" if node.level else (node.module or "").partition(".")[0])
    return names


def examples(tree: ast.Module) -> list[str]:
    """Returns the examples in its docstrings as statements that print their value, without those that raise."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            continue
        try:
            parsed = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
            sources = [(one.source, ast.parse(one.source)) for one in parsed if not one.exc_msg]
        except (ValueError, SyntaxError):
            continue
        for source, body in sources:
            shown = len(body.body) == 1 and isinstance(body.body[0], ast.Expr)
            found.append(f"print(repr({source.strip().removesuffix(';')}))\n" if shown and "#" not in source else source)
    return found


def program(path: Path) -> str | None:
    """Returns the code of a file with its examples, or None if it is not self-contained."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (SyntaxError, UnicodeDecodeError):
        return None
    if any(word in text for word in LEFT_OUT) or not imported(tree) <= sys.stdlib_module_names:
        return None
    code = f"{text}\n{''.join(examples(tree))}"
    try:
        ast.parse(code)
    except SyntaxError:
        return text
    return code


def expected(code: str, folder: str) -> str | None:
    """Returns what `python3` prints; None if it fails, takes too long, prints nothing, or differs the second time."""
    printed = []
    for _ in range(2):
        try:
            done = subprocess.run(
                [sys.executable, "-X", "utf8", "-c", code], cwd=folder, capture_output=True, timeout=LONGEST_SECONDS
            )
        except subprocess.TimeoutExpired:
            return None
        if done.returncode or not done.stdout:
            return None
        printed.append(done.stdout.decode(errors="replace").rstrip("\n"))
    return printed[0] if printed[0] == printed[1] else None


def fetched(package: str, folder: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, package]
    subprocess.run(command, check=True)
    unpacked = Path(folder) / "unpacked"
    with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as archive:
        archive.extractall(unpacked)
    return unpacked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--onetool", type=Path, required=True)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--folder", type=Path)
    source.add_argument("--package")
    parser.add_argument("--engine", default="auto", choices=["auto", "cpython"])
    chosen = parser.parse_args()
    count, failed, taken = 0, [], []
    with tempfile.TemporaryDirectory() as downloads, tempfile.TemporaryDirectory() as folder:
        root = chosen.folder or fetched(chosen.package, downloads)
        (Path(folder) / ".onetool").mkdir()
        settings = f"run: {{engine: {chosen.engine}}}\noutput: {{max_inline_size: 10000000}}\nstats: {{enabled: false}}\n"
        (Path(folder) / ".onetool/onetool.yaml").write_text(settings)
        with StdioClient([str(chosen.onetool.resolve()), "serve"], cwd=Path(folder)) as client:
            client.initialize()
            for path in sorted(root.rglob("*.py")):
                code = program(path)
                wanted = code and expected(f"{code}\nNone\n", downloads)
                if not wanted:
                    continue
                count += 1
                started = time.perf_counter()
                try:
                    text = client.call("run", {"command": f"{code}\nNone\n"}).text
                except ServerProblem as problem:
                    text = str(problem)
                taken.append((time.perf_counter() - started) * 1e3)
                if text.rstrip("\n") != wanted:
                    failed.append(f"{path.relative_to(root)}:\n  python3: {wanted[:300]}\n  onetool: {text[:300]}")
    if not count:
        print("no program was found")
        return 1
    print(f"{count - len(failed)} of {count} programs print what python3 prints; median {statistics.median(taken):.1f} ms")
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

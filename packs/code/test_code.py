"""The pack `code` on small files in every language that it knows."""

from __future__ import annotations

import subprocess

import pytest

FILES = {
    "a.py": "import os\nfrom b import c\n\nclass Runner:\n    def run(self, n):\n        # run is not a call here\n        return helper('run') + os.getpid()\n\ndef helper(x):\n    return x\n",
    "a.js": "import x from 'y';\nclass Runner { run() { return helper(1); } }\nconst helper = (n) => n;\nfunction plain() {}\n",
    "a.ts": "interface Shape { area(): number }\ntype Id = string;\nenum Kind { A }\nexport class Runner { run(): void { helper(); } }\nfunction helper() {}\n",
    "a.rs": "use std::fs;\nstruct Runner;\nimpl Runner { fn run(&self) { helper(1); println!(\"x\"); } }\ntrait Go { fn go(&self); }\nfn helper(n: u8) -> u8 { n }\nconst MAX: u8 = 3;\nmod inner { pub fn deep() {} }\n",
    "a.go": "package main\nimport \"fmt\"\ntype Runner struct{}\nfunc (r Runner) Run() { helper() }\nfunc helper() { fmt.Println() }\n",
    "a.java": "import java.util.List;\nclass Runner { void run() { helper(); } static int helper() { return 1; } }\ninterface Go {}\n",
    "a.c": "#include <stdio.h>\nstruct point { int x; };\nint helper(int n) { return n; }\nint *run(void) { helper(1); return 0; }\n",
    "a.cpp": "#include <map>\nnamespace n { class Runner { public: void run() { helper(); } }; }\nint helper() { return 1; }\n",
    "a.cs": "using System;\nnamespace N { class Runner { void Run() { Helper(); } static void Helper() {} } }\n",
    "a.rb": "module N\n  class Runner\n    def run\n      helper(1)\n    end\n  end\nend\ndef helper(n)\n  n\nend\n",
    "a.php": "<?php\nuse A\\B;\nclass Runner { function run() { return helper(1); } }\nfunction helper($n) { return $n; }\n",
}
EXPECTED = {
    "a.py": ["class Runner", "method run", "function helper"],
    "a.js": ["class Runner", "method run", "function helper", "function plain"],
    "a.ts": ["interface Shape", "method area", "type Id", "enum Kind", "class Runner", "method run", "function helper"],
    "a.rs": ["struct Runner", "impl Runner", "method run", "trait Go", "method go", "function helper", "constant MAX", "module inner", "function deep"],
    "a.go": ["type Runner", "method Run", "function helper"],
    "a.java": ["class Runner", "method run", "method helper", "interface Go"],
    "a.c": ["struct point", "function helper", "function run"],
    "a.cpp": ["module n", "class Runner", "method run", "function helper"],
    "a.cs": ["module N", "class Runner", "method Run", "method Helper"],
    "a.rb": ["module N", "class Runner", "method run", "method helper"],
    "a.php": ["class Runner", "method run", "function helper"],
}


@pytest.fixture
def code(start, tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return start("code")


@pytest.mark.parametrize("name", FILES)
def test_symbols_uses_and_calls_in_every_language(code, name):
    found = code.symbols(path=name, depth=3)
    assert [f"{entry['kind']} {entry['name']}" for entry in found] == EXPECTED[name]
    helper = "Helper" if name == "a.cs" else "helper"
    (use,) = code.references(name=helper, path=name)
    inside = use["inside"].split(".")[-1].lower()
    assert inside == "run", use
    both = code.references(name=helper, path=name, definitions=True)
    assert len(both) == 2
    assert helper in [call["calls"] for call in code.calls(path=name) if call["inside"].lower().endswith("run")]
    assert name in ("a.ts", "a.rb") or len(code.imports(path=name)) >= 1


def test_where_things_are(code):
    (entry,) = code.find(name="Runner.run", path="a.py")
    assert entry == {
        "name": "run", "kind": "method", "path": "a.py", "line": 5, "end": 7, "parent": "Runner", "signature": "def run(self, n)",
    }
    assert code.source(name="helper", path="a.py") == "a.py:9-10\ndef helper(x):\n    return x"
    assert {entry["path"] for entry in code.find(name="Runn*", kind="class")} == {
        "a.py", "a.js", "a.ts", "a.java", "a.cpp", "a.cs", "a.rb", "a.php",
    }


def test_ignored_files_are_left_out(code, tmp_path):
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    (tmp_path / "gen").mkdir()
    (tmp_path / "gen/g.py").write_text("def only_here(): ...\n")
    assert len(code.find(name="only_here")) == 1
    (tmp_path / ".gitignore").write_text("gen/\n")
    assert code.find(name="only_here") == []


def test_code_that_does_not_compile_and_deep_code(code, tmp_path):
    (tmp_path / "broken.py").write_text("def good():\n    pass\n\ndef bad(:\n\ndef other():\n    return good()\n")
    assert {"good", "other"} <= {entry["name"] for entry in code.symbols(path="broken.py")}
    (tmp_path / "deep.py").write_text("x = " + "[" * 5000 + "name" + "]" * 5000 + "\n")
    assert len(code.references(name="name", path="deep.py")) <= 1


def test_mistakes_are_explained(code, start, tmp_path, failed):
    (tmp_path / "notes.txt").write_text("x")
    failed("ValueError", "known language", code.symbols, path="notes.txt")
    failed("FileNotFoundError", "nowhere", code.symbols, path="nowhere")
    failed("LookupError", "is not defined", code.source, name="missing", path="a.py")
    failed("PermissionError", "outside", code.symbols, path="..")
    small = start("code", config={"code": {"max_results": 2, "max_files": 100}})
    failed("ValueError", "more than 2 results", small.symbols, path=".")
    failed("ValueError", "more than 3", start("code", config={"code": {"max_files": 3}}).symbols, path=".")


def test_ordinary_files_that_look_like_a_repository_start_no_program(start, tmp_path):
    marker, other, fake = tmp_path / "ran", tmp_path / "other", tmp_path / "evil"

    def git(*arguments, cwd=other):
        subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True)

    other.mkdir()
    git("init", "--initial-branch=main")
    (other / "sub").mkdir()
    # Git reads these rules from the index, not from the work tree, and fetches them if they are missing.
    (other / ".gitignore").write_text("x\n")
    git("add", ".")
    git("update-index", "--skip-worktree", ".gitignore")
    (other / ".git").rename(fake)
    config = "[core]\nrepositoryformatversion = 1\nbare = false\nworktree = .\nfsmonitor = touch MARK; false\n"
    config += '[extensions]\npartialClone = o\n[remote "o"]\nurl = .\npromisor = true\nuploadpack = touch MARK; false\n'
    (fake / "config").write_text(config.replace("MARK", str(marker)))
    for blob in (fake / "objects").glob("??"):
        for file in blob.iterdir():
            file.unlink()
    (fake / "b.py").write_text("def helper():\n    pass\n")
    found = start("code").find(name="helper", path="evil")
    assert [entry["path"] for entry in found] == ["evil/b.py"]
    assert not marker.exists()

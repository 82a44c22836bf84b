"""The pack `git` on a repository that the tests make with the real program."""

from __future__ import annotations

import subprocess

import pytest


@pytest.fixture
def git(start, tmp_path):
    def run(*arguments):
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True, capture_output=True)

    run("init", "--initial-branch=main")
    run("config", "user.name", "Ada")
    run("config", "user.email", "ada@example.org")
    (tmp_path / "a.py").write_text("def main():\n    pass\n")
    (tmp_path / "Zoë x.txt").write_text("one\n")
    run("add", ".")
    run("commit", "--message=Start\n\nwith a body")
    (tmp_path / "a.py").write_text("def main():\n    return 1\n")
    run("commit", "--all", "--message=Return one")
    worker = start("git")
    worker.run = run
    return worker


def test_status(git, tmp_path):
    (tmp_path / "new.txt").write_text("x")
    (tmp_path / "a.py").write_text("changed\n")
    git.run("mv", "Zoë x.txt", "moved y.txt")
    found = git.status()
    assert found["branch"] == "main" and len(found["commit"]) == 40
    assert sorted(found["files"], key=lambda file: file["path"]) == [
        {"path": "a.py", "staged": None, "unstaged": "M"},
        {"path": "moved y.txt", "staged": "R", "unstaged": None, "from": "Zoë x.txt"},
        {"path": "new.txt", "staged": None, "unstaged": "?"},
    ]


def test_log(git):
    newest, oldest = git.log()
    assert (newest["subject"], oldest["body"], newest["refs"]) == ("Return one", "with a body", ["HEAD -> main"])
    assert [entry["subject"] for entry in git.log(path="Zoë x.txt")] == ["Start"]
    assert [entry["subject"] for entry in git.log(search="RETURN")] == ["Return one"]
    assert git.log(author="nobody") == [] and len(git.log(limit=1)) == 1


def test_diff_show_and_blame(git, tmp_path):
    assert "-    pass\n+    return 1\n" in git.diff(ref="HEAD~1")
    assert git.diff(ref="HEAD~1", stat=True) == [{"path": "a.py", "added": 1, "removed": 1}]
    assert git.show(ref="HEAD~1", path="a.py") == "def main():\n    pass\n"
    assert "Return one" in git.show()
    lines = git.blame(path="a.py")
    assert [(line["line"], line["subject"], line["text"]) for line in lines] == [
        (1, "Start", "def main():"),
        (2, "Return one", "    return 1"),
    ]
    assert [line["line"] for line in git.blame(path="a.py", start=2, end=2)] == [2]


def test_files_and_grep(git):
    assert git.files() == ["Zoë x.txt", "a.py"]
    assert git.grep(pattern="pass|return") == [{"path": "a.py", "line": 2, "text": "    return 1"}]
    assert git.grep(pattern="PASS", ref="HEAD~1", ignore_case=True) == [{"path": "a.py", "line": 2, "text": "    pass"}]
    assert git.grep(pattern="nothing like it") == []


def test_stage_commit_and_switch(git, tmp_path):
    assert git.switch(branch="feature", create=True)["branch"] == "feature"
    (tmp_path / "n.txt").write_text("n\n")
    (tmp_path / "other.txt").write_text("o\n")
    made = git.commit(message="Add n", paths=["n.txt"])
    assert (made["subject"], made["files"]) == ("Add n", [{"path": "n.txt", "added": 1, "removed": 0}])
    assert git.stage(paths=["other.txt"])["files"] == [{"path": "other.txt", "staged": "A", "unstaged": None}]
    assert git.commit(message="Add other")["subject"] == "Add other"
    assert {branch["name"]: branch["current"] for branch in git.branches()} == {"feature": True, "main": False}
    assert len(git.log(ref="main..feature")) == 2


def test_names_are_never_options(git, tmp_path, failed):
    for call in (git.log, git.diff, git.show, git.files):
        failed("ValueError", "is not a commit", call, ref="--output=stolen")
    failed("ValueError", "is not a commit", git.switch, branch="--force")
    failed("RuntimeError", "git blame", git.blame, path="--contents=/etc/passwd")
    assert not (tmp_path / "stolen").exists()


def test_a_repository_cannot_run_programs(git, tmp_path):
    marker = tmp_path / "ran"
    git.run("config", "core.fsmonitor", f"touch {marker}")
    git.run("config", "diff.external", f"touch {marker}")
    git.run("config", "core.pager", f"touch {marker}")
    (tmp_path / "a.py").write_text("x\n")
    git.status()
    git.diff()
    git.log()
    assert not marker.exists()


def test_mistakes_are_explained(git, start, tmp_path, failed):
    failed("RuntimeError", "bad revision", git.log, ref="nope")
    failed("ValueError", "message is empty", git.commit, message=" ")
    failed("PermissionError", "outside", git.status, repo="..")
    failed("NotADirectoryError", "a.py", git.status, repo="a.py")
    failed("ValueError", "more than 10 bytes", start("git", config={"git": {"max_bytes": 10}}).show)


def test_ordinary_files_are_not_a_repository(git, tmp_path):
    marker, fake = tmp_path / "ran", tmp_path / "notes"
    for folder in ("objects", "refs", "hooks"):
        (fake / folder).mkdir(parents=True)
    (fake / "HEAD").write_text("ref: refs/heads/main\n")
    config = f'[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\n[filter "x"]\nclean = touch {marker}\n'
    (fake / "config").write_text(config)
    (tmp_path / ".gitattributes").write_text("* filter=x\n")
    for call in (git.status, git.diff, git.log):
        with pytest.raises(Exception, match="(?i)bareRepository|not a git repository"):
            call(repo="notes")
    with pytest.raises(Exception, match="(?i)bareRepository|not a git repository"):
        git.stage(paths=["a.py"], repo="notes")
    assert not marker.exists()


def test_a_switch_does_not_bring_other_rules(git, tmp_path, failed):
    git.run("switch", "--create", "other")
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "onetool.yaml").write_text("security: {}\n")
    git.run("add", ".")
    git.run("commit", "--message=Rules")
    git.run("switch", "main")
    failed("PermissionError", "switching would change a file", git.switch, branch="other")
    failed("PermissionError", "ask the user", git.switch, branch="new", create=True, start="other")
    assert not (tmp_path / ".onetool").exists()
    git.run("update-ref", "refs/remotes/origin/theirs", "other")
    git.run("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
    failed("PermissionError", "ask the user", git.switch, branch="theirs")
    assert git.switch(branch="plain", create=True)["branch"] == "plain"


def _script(path, marker):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch {marker}\n")
    path.chmod(0o755)


def test_hooks_in_the_work_tree_do_not_run(git, tmp_path):
    marker = tmp_path / "ran"
    git.run("config", "core.hooksPath", ".husky")
    for hook in ("pre-commit", "post-checkout", "post-index-change"):
        _script(tmp_path / ".husky" / hook, marker)
    (tmp_path / "a.py").write_text("x = 1\n")
    assert "not run" in git.stage(paths=["a.py"])["hooks"]
    assert ".husky" in git.commit(message="Change")["hooks"]
    git.switch(branch="more", create=True)
    git.status()
    assert not marker.exists()


def test_a_hook_that_links_to_the_work_tree_does_not_run(git, tmp_path):
    marker = tmp_path / "ran"
    _script(tmp_path / "scripts" / "check.sh", marker)
    (tmp_path / ".git" / "hooks" / "pre-commit").symlink_to("../../scripts/check.sh")
    assert "not run" in git.commit(message="Scripts", paths=["scripts"])["hooks"]
    assert not marker.exists()


def test_the_users_own_hooks_run(git, tmp_path):
    marker = tmp_path / "ran"
    _script(tmp_path / ".git" / "hooks" / "pre-commit", marker)
    (tmp_path / "a.py").write_text("x = 1\n")
    assert set(git.commit(message="Change", paths=["a.py"])) == {"hash", "subject", "files"}
    assert marker.exists()


def test_settings_that_tools_can_write_start_no_program(git, tmp_path, failed):
    marker = tmp_path / "ran"
    git.run("config", "include.path", "../.gitconfig")
    (tmp_path / ".gitattributes").write_text("* filter=x\n")
    (tmp_path / ".gitconfig").write_text("[blame]\nmarkIgnoredLines = true\n")
    (tmp_path / "a.py").write_text("x = 1\n")
    assert git.status()["branch"] == "main"
    (tmp_path / ".gitconfig").write_text(f'[filter "x"]\nclean = touch {marker}\n')
    for call in (git.status, git.diff, git.log, git.show):
        failed("PermissionError", "filter.x.clean", call)
    failed("PermissionError", "ask the user", git.stage, paths=["a.py"])
    assert not marker.exists()


def test_files_with_secrets_are_not_shown(git, tmp_path, failed):
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "secrets.yaml").write_text("TOKEN: hunter2\n")
    (tmp_path / "b.txt").write_text("hunter2 too\n")
    git.run("add", ".")
    git.run("commit", "--message=All")
    git.run("tag", "--annotate", "v1", "--message=One")
    for path in (".onetool/secrets.yaml", "./.onetool/secrets.yaml", ".onetool/../.onetool/secrets.yaml"):
        failed("PermissionError", "holds secrets", git.show, path=path)
    failed("PermissionError", "holds secrets", git.blame, path=".onetool/secrets.yaml")
    for ref in ("HEAD:.onetool/secrets.yaml", ":.onetool/secrets.yaml", "main..HEAD:.onetool/secrets.yaml", "HEAD:.onetool"):
        failed("ValueError", "is not a commit", git.show, ref=ref)
        failed("ValueError", "is not a commit", git.diff, ref=ref)
        failed("ValueError", "is not a commit", git.grep, pattern="x", ref=ref)
    blob = subprocess.run(["git", "rev-parse", "HEAD:.onetool/secrets.yaml"], cwd=tmp_path, capture_output=True, text=True).stdout[:8]
    failed("ValueError", "is not a commit", git.show, ref=blob)
    failed("ValueError", "is not a commit", git.diff, ref=f"{blob}..{blob}")
    for ref in ("HEAD", "v1", "main", ":/All", "HEAD~1..HEAD", "HEAD^!"):
        shown = git.show(ref=ref)
        assert "hunter2 too" in shown and "TOKEN" not in shown and shown.startswith("# left out"), ref
    (tmp_path / ".onetool" / "secrets.yaml").write_text("TOKEN: hunter3\n")
    (tmp_path / "b.txt").write_text("changed\n")
    for named in ({}, {"ref": "HEAD~1"}, {"ref": "HEAD~1...HEAD"}, {"path": "."}):
        assert "b.txt" in (shown := git.diff(**named)) and "TOKEN" not in shown, named
    git.run("add", ".")
    assert "TOKEN" not in git.diff(staged=True)
    assert [entry["path"] for entry in git.grep(pattern="hunter|changed")] == ["b.txt"]
    assert [entry["path"] for entry in git.grep(pattern="hunter", ref="HEAD")] == ["b.txt"]
    assert git.grep(pattern="TOKEN", path=":(top).onetool") == []

# /// script
# requires-python = ">=3.10"
# dependencies = []
# ///
"""Look at a Git repository, and commit to it. Needs the program git."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

from onetool import get_config, resolve_path

pack = "git"

__all__ = ["status", "log", "diff", "show", "blame", "branches", "files", "grep", "stage", "commit", "switch"]

# Each may be changed in onetool.yaml as tools.git.<name in lower case>.
TIMEOUT = 60
MAX_BYTES = 1_000_000
# Of the names of files that a switch would change.
MAX_NAMES = 100_000_000

_FIELD, _RECORD = "\x1f", "\x1e"


def status(repo: str = ".") -> dict:
    """Tell the branch, how far it is from its upstream, and which files changed.

    Args:
        repo: The repository's folder, or any folder in it.

    Returns:
        branch, commit, upstream, ahead, behind, and files (path, staged, unstaged, and from for renames); "?" is new.

    Example:
        git.status()
    """
    found: dict = {"branch": None, "commit": None, "upstream": None, "ahead": 0, "behind": 0, "files": []}
    entries = iter(_git(repo, "status", "--porcelain=v2", "--branch", "-z").split("\0"))
    for entry in entries:
        kind, _, rest = entry.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.head":
                found["branch"] = None if value == "(detached)" else value
            elif name == "branch.oid":
                found["commit"] = None if value == "(initial)" else value
            elif name == "branch.upstream":
                found["upstream"] = value
            elif name == "branch.ab":
                ahead, behind = value.split()
                found["ahead"], found["behind"] = int(ahead), -int(behind)
        elif kind == "1":
            parts = rest.split(" ", 7)
            found["files"].append(_changed(parts[0], parts[7]))
        elif kind == "2":
            parts = rest.split(" ", 8)
            found["files"].append({**_changed(parts[0], parts[8]), "from": next(entries, "")})
        elif kind == "u":
            parts = rest.split(" ", 9)
            found["files"].append({"path": parts[9], "staged": None, "unstaged": None, "conflict": parts[0]})
        elif kind == "?":
            found["files"].append({"path": rest, "staged": None, "unstaged": "?"})
    return found


def log(
    limit: int = 20, path: str = "", author: str = "", since: str = "", search: str = "", ref: str = "HEAD", repo: str = "."
) -> list[dict]:
    """List commits, the newest first.

    Args:
        limit: The most commits to list, up to 1000.
        path: Only commits that changed this file or folder.
        author: Only commits whose author's name or address contains this.
        since: Only commits after this date, such as "2024-01-31" or "2 weeks ago".
        search: Only commits whose message contains this, in upper or lower case.
        ref: A branch, a tag, a commit, or a range such as "main..feature".
        repo: The repository's folder, or any folder in it.

    Returns:
        For each commit: hash, author, email, date, subject, body, and refs.

    Example:
        git.log(limit=5, path="src")
    """
    layout = _FIELD.join(["%H", "%an", "%ae", "%aI", "%s", "%b", "%D"]) + _RECORD
    options = [f"--max-count={max(1, min(limit, 1000))}", f"--format=tformat:{layout}"]
    options += [f"--author={author}"] if author else []
    options += [f"--since={since}"] if since else []
    options += [f"--grep={search}", "--regexp-ignore-case", "--fixed-strings"] if search else []
    text = _git(repo, "log", *options, _ref(ref), "--", *([path] if path else []))
    names = ("hash", "author", "email", "date", "subject", "body", "refs")
    found = []
    for record in text.split(_RECORD):
        parts = record.lstrip("\n").split(_FIELD)
        if len(parts) == len(names):
            entry = dict(zip(names, parts))
            entry["body"] = entry["body"].strip()
            entry["refs"] = [name for name in entry["refs"].split(", ") if name]
            found.append(entry)
    return found


def diff(
    ref: str = "", path: str = "", staged: bool = False, context: int = 3, stat: bool = False, repo: str = "."
) -> str | list[dict]:
    """Show what changed.

    Args:
        ref: Compare with this commit, or two of them with a range such as "main...feature". Empty: what is not staged.
        path: Only this file or folder.
        staged: Whether to show what is staged for the next commit instead.
        context: How many unchanged lines to show around each change, 0 to 100.
        stat: Whether to return only the number of lines that changed in each file.
        repo: The repository's folder, or any folder in it.

    Returns:
        A unified diff; with stat, for each file: path, added and removed (None for binary files).

    Example:
        git.diff(ref="main...HEAD", stat=True)
    """
    options = ["--no-ext-diff", "--no-textconv", "--no-color", *(["--cached"] if staged else [])]
    options += ["--numstat", "-z", "--no-renames"] if stat else [f"--unified={max(0, min(context, 100))}"]
    text = _git(repo, "diff", *options, *([_ref(ref)] if ref else []), "--", *([path] if path else []))
    return _numstat(text) if stat else text


def show(ref: str = "HEAD", path: str = "", repo: str = ".") -> str:
    """Show a commit with its diff, or a file as it was in a commit.

    Args:
        ref: The commit, branch or tag.
        path: A file, from the top of the repository. Empty: the commit itself.
        repo: The repository's folder, or any folder in it.

    Returns:
        The commit's message and diff, or the file's text.

    Example:
        git.show(ref="HEAD~1", path="README.md")
    """
    if path:
        return _git(repo, "cat-file", "blob", f"{_ref(ref)}:{path.removeprefix('./')}")
    return _git(repo, "show", "--no-ext-diff", "--no-textconv", "--no-color", "--format=fuller", _ref(ref), "--")


def blame(path: str, start: int = 1, end: int = 0, ref: str = "", repo: str = ".") -> list[dict]:
    """Tell who last changed each line of a file, and when.

    Args:
        path: The file.
        start: The first line.
        end: The last line. 0: the end of the file.
        ref: The commit to look at. Empty: the file as it is now.
        repo: The repository's folder, or any folder in it.

    Returns:
        For each line: line, hash, author, date (seconds since 1970), subject and text.

    Example:
        git.blame(path="src/main.py", start=10, end=20)
    """
    lines = f"-L{max(1, start)},{end if end > 0 else ''}"
    text = _git(repo, "blame", "--line-porcelain", lines, *([_ref(ref)] if ref else []), "--", path)
    found, entry = [], {}
    for line in text.split("\n"):
        if line.startswith("\t"):
            found.append({**entry, "text": line[1:]})
        elif match := re.match(r"([0-9a-f]{40,64}) \d+ (\d+)", line):
            entry = {"line": int(match[2]), "hash": match[1]}
        elif line.startswith("author "):
            entry["author"] = line[7:]
        elif line.startswith("author-time "):
            entry["date"] = int(line[12:])
        elif line.startswith("summary "):
            entry["subject"] = line[8:]
    return found


def branches(remote: bool = False, repo: str = ".") -> list[dict]:
    """List branches, the one used last first.

    Args:
        remote: Whether to include branches of remotes.
        repo: The repository's folder, or any folder in it.

    Returns:
        For each branch: name, current, hash, date, subject and upstream.

    Example:
        git.branches()
    """
    layout = _FIELD.join(
        ["%(refname:short)", "%(HEAD)", "%(objectname)", "%(committerdate:iso-strict)", "%(contents:subject)", "%(upstream:short)"]
    )
    where = ["refs/heads", "refs/remotes"] if remote else ["refs/heads"]
    found = []
    for line in _git(repo, "for-each-ref", "--sort=-committerdate", f"--format={layout}", *where).splitlines():
        name, head, commit, date, subject, upstream = line.split(_FIELD)
        entry = {"name": name, "current": head == "*", "hash": commit, "date": date, "subject": subject}
        found.append({**entry, "upstream": upstream or None})
    return found


def files(ref: str = "", path: str = "", repo: str = ".") -> list[str]:
    """List the files that Git knows.

    Args:
        ref: As they were in this commit. Empty: now.
        path: Only those below this folder.
        repo: The repository's folder, or any folder in it.

    Returns:
        Their paths.

    Example:
        git.files(path="src")
    """
    rest = ["--", path] if path else []
    command = ["ls-tree", "-r", "--name-only", "-z", _ref(ref), *rest] if ref else ["ls-files", "-z", *rest]
    return [name for name in _git(repo, *command).split("\0") if name]


def grep(pattern: str, ref: str = "", path: str = "", ignore_case: bool = False, limit: int = 200, repo: str = ".") -> list[dict]:
    """Search the files that Git knows, also as they were in a commit.

    Args:
        pattern: An extended regular expression.
        ref: Search in this commit. Empty: the files as they are now.
        path: Only in this file or folder, or files of a pattern such as "*.py".
        ignore_case: Whether upper and lower case are the same.
        limit: The most lines to return.
        repo: The repository's folder, or any folder in it.

    Returns:
        For each line: path, line and text.

    Example:
        git.grep(pattern="def main", path="*.py")
    """
    options = ["-n", "-z", "-I", "-E", "--no-color", "--full-name", *(["-i"] if ignore_case else []), "-e", pattern]
    text = _git(repo, "grep", *options, *([_ref(ref)] if ref else []), "--", *([path] if path else []), accept=(0, 1))
    found = []
    for line in text.split("\n"):
        parts = line.split("\0", 2)
        if len(parts) == 3 and len(found) < limit:
            name = parts[0].removeprefix(f"{ref}:") if ref else parts[0]
            found.append({"path": name, "line": int(parts[1]), "text": parts[2][:500]})
    return found


def stage(paths: list[str], repo: str = ".") -> dict:
    """Stage files for the next commit.

    Args:
        paths: Files or folders; "." is everything below the repository's folder.
        repo: The repository's folder, or any folder in it.

    Returns:
        The status afterwards, as git.status returns it.

    Example:
        git.stage(paths=["README.md"])
    """
    if not paths:
        raise ValueError("paths is empty: there is nothing to stage")
    _git(repo, "add", "--", *paths)
    return status(repo)


def commit(message: str, paths: list[str] | None = None, repo: str = ".") -> dict:
    """Commit what is staged, or the named files only.

    Args:
        message: The commit's message; its first line is the subject.
        paths: Commit the changes of these files only, staged or not.
        repo: The repository's folder, or any folder in it.

    Returns:
        hash and subject of the new commit, and its files.

    Example:
        git.commit(message="docs: explain the limits", paths=["README.md"])
    """
    if not message.strip():
        raise ValueError("the message is empty")
    if paths:
        _git(repo, "add", "--", *paths)
    _git(repo, "commit", "--quiet", "--no-gpg-sign", f"--message={message}", *(["--only", "--", *paths] if paths else []))
    (entry,) = log(limit=1, repo=repo)
    changed = _git(repo, "show", "--numstat", "-z", "--no-renames", "--format=", "HEAD", "--")
    return {"hash": entry["hash"], "subject": entry["subject"], "files": _numstat(changed)}


def switch(branch: str, create: bool = False, start: str = "", repo: str = ".") -> dict:
    """Switch to another branch. Changes that would be lost stop it.

    Args:
        branch: The branch.
        create: Whether the branch is new.
        start: The commit that a new branch starts at. Empty: the current one.
        repo: The repository's folder, or any folder in it.

    Returns:
        The status afterwards, as git.status returns it.

    Example:
        git.switch(branch="feature/limits", create=True)
    """
    options = ["--create", _ref(branch), *([_ref(start)] if start else [])] if create else [_ref(branch)]
    target = start or "HEAD" if create else branch
    _check_files(repo, target)
    _git(repo, "switch", "--quiet", *options)
    return status(repo)


# ---- git ------------------------------------------------------------------------------------------------------------


def _changed(marks: str, path: str) -> dict:
    staged, unstaged = (None if mark == "." else mark for mark in marks)
    return {"path": path, "staged": staged, "unstaged": unstaged}


def _check_files(repo: str, target: str) -> None:
    """Stops where a switch would replace files that govern OneTool: another branch must not bring its own rules."""
    known = _git(repo, "rev-parse", "--verify", "--quiet", f"{target}^{{commit}}", accept=(0, 1)).strip()
    if not known:
        # A branch of a remote that Git would make a local one of.
        remote = _git(repo, "for-each-ref", "--format=%(objectname)", f"refs/remotes/*/{target}").split()
        if not remote:
            return
        known = remote[0]
    top = pathlib.Path(_git(repo, "rev-parse", "--show-toplevel").rstrip("\n"))
    options = ["--name-only", "--no-renames", "--no-ext-diff", "--no-textconv", "-z"]
    changed = _git(repo, "diff", *options, "HEAD", known, "--", limit=MAX_NAMES).split("\0")
    root = resolve_path(".")
    for file in (top / name for name in changed if name):
        if root in file.parents:
            try:
                resolve_path(file, write=True)
            except PermissionError as error:
                reason = str(error).split("\n")[0]
                raise PermissionError(f"switching would change a file: {reason}\nhint: ask the user to switch") from None


def _numstat(text: str) -> list[dict]:
    found = []
    for line in filter(None, text.split("\0")):
        added, removed, path = line.lstrip("\n").split("\t", 2)
        binary = added == "-"
        found.append({"path": path, "added": None if binary else int(added), "removed": None if binary else int(removed)})
    return found


def _ref(ref: str) -> str:
    """A name that Git cannot take for an option."""
    if not ref or ref.startswith("-") or any(ord(mark) < 33 for mark in ref):
        raise ValueError(f"'{ref}' is not a commit, a branch or a tag")
    return ref


def _setting(name: str, default: int) -> int:
    value = get_config("git", name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"tools.git.{name} must be a whole number above 0, not {value!r}")
    return value


def _git(repo: str, *arguments: str, accept: tuple[int, ...] = (0,), limit: int = 0) -> str:
    program = shutil.which("git")
    if program is None:
        raise FileNotFoundError("git is not installed\nhint: install it, and see that it is in PATH")
    folder = resolve_path(repo)
    if not folder.is_dir():
        raise NotADirectoryError(f"{repo} is not a folder")
    # No pager, no questions, no programs that the repository's own configuration names. A folder of ordinary files that
    # looks like a bare repository is none: whoever writes its files would choose the hooks and filters that run.
    settings = ["core.fsmonitor=false", "core.quotePath=false", "core.pager=cat", "safe.bareRepository=explicit"]
    fixed = ["--no-pager", *(part for setting in settings for part in ("-c", setting))]
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8", "GIT_EDITOR": "true"}
    limit, seconds = limit or _setting("max_bytes", MAX_BYTES), _setting("timeout", TIMEOUT)
    with tempfile.TemporaryFile() as talk:
        process = subprocess.Popen(
            [program, *fixed, *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=talk
        )
        late, output = threading.Event(), b""
        timer = threading.Timer(seconds, lambda: (late.set(), process.kill()))
        timer.start()
        try:
            output = process.stdout.read(limit + 1)
        finally:
            if len(output) > limit:
                process.kill()
            process.stdout.close()
            code = process.wait()
            timer.cancel()
        talk.seek(0)
        told = talk.read(2000).decode("utf-8", "replace").strip()
    if late.is_set():
        raise TimeoutError(f"git {arguments[0]} took more than {seconds} seconds")
    if len(output) > limit:
        hint = "narrow it with path, limit or stat, or set tools.git.max_bytes"
        raise ValueError(f"git {arguments[0]} gives more than {limit} bytes\nhint: {hint}")
    text = output.decode("utf-8", "replace")
    if code not in accept:
        raise RuntimeError(f"git {arguments[0]}: {told or text.strip()[:2000] or f'ended with {code}'}")
    return text

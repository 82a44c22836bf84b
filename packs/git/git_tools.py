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

# No pager, no questions, no programs that the repository's own configuration names, and no fetching of missing objects. A
# folder of ordinary files that looks like a bare repository is none: whoever writes its files would choose the hooks and
# filters that run.
_GIT_SETTINGS = ["core.fsmonitor=false", "core.quotePath=false", "core.pager=cat", "safe.bareRepository=explicit"]
_GIT_OPTIONS = ["--no-pager", *(part for setting in _GIT_SETTINGS for part in ("-c", setting))]
_GIT_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_EDITOR": "true", "LC_ALL": "C.UTF-8",
}

_FIELD, _RECORD = "\x1f", "\x1e"

_NAMES = ["--name-only", "--no-renames", "--no-relative", "-z"]

# Settings that name programs which these commands may start. Hooks are checked apart; nothing is fetched or signed.
_PROGRAMS = re.compile(r"filter\.|gpg\.|diff\.(.*\.)?(external|command|textconv)$")


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
    what, paths = [_commits(repo, ref)] if ref else [], [path] if path else []
    if stat:
        return _numstat(_git(repo, "diff", *options, "--numstat", "-z", "--no-renames", *what, "--", *paths))
    names = _git(repo, "diff", *options, *_NAMES, *what, "--", *paths, limit=MAX_NAMES)
    hidden = _hidden(repo, names)
    lines = f"--unified={max(0, min(context, 100))}"
    return _note(hidden) + _git(repo, "diff", *options, lines, *what, "--", *paths, *_without(hidden))


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
    known = _commits(repo, ref)
    if path:
        path = path.removeprefix("./")
        resolve_path(_top(repo) / path)
        return _git(repo, "cat-file", "blob", f"{known}:{path}")
    options = ["--no-ext-diff", "--no-textconv", "--no-color"]
    # Of a merge, what differs from any of its parents.
    hidden = _hidden(repo, _git(repo, "show", *options, *_NAMES, "-m", "--format=", known, "--", limit=MAX_NAMES))
    return _note(hidden) + _git(repo, "show", *options, "--format=fuller", _ref(ref), "--", *_without(hidden))


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
    resolve_path(resolve_path(repo) / path)
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
    known = _commits(repo, ref) if ref else ""
    text = _git(repo, "grep", *options, *([known] if ref else []), "--", *([path] if path else []), accept=(0, 1))
    found, top, readable = [], _top(repo), {}
    for line in text.split("\n"):
        parts = line.split("\0", 2)
        if len(parts) == 3 and len(found) < limit:
            name = parts[0].removeprefix(f"{known}:") if ref else parts[0]
            if name not in readable:
                readable[name] = _is_readable(top / name)
            if readable[name]:
                found.append({"path": name, "line": int(parts[1]), "text": parts[2][:500]})
    return found


def stage(paths: list[str], repo: str = ".") -> dict:
    """Stage files for the next commit.

    Args:
        paths: Files or folders; "." is everything below the repository's folder.
        repo: The repository's folder, or any folder in it.

    Returns:
        The status afterwards, as git.status returns it; hooks tells if Git's hooks were not run.

    Example:
        git.stage(paths=["README.md"])
    """
    if not paths:
        raise ValueError("paths is empty: there is nothing to stage")
    with_hooks, skipped = _hooks(repo)
    _git(repo, "add", "--", *paths, with_hooks=with_hooks)
    return {**status(repo), **skipped}


def commit(message: str, paths: list[str] | None = None, repo: str = ".") -> dict:
    """Commit what is staged, or the named files only.

    Args:
        message: The commit's message; its first line is the subject.
        paths: Commit the changes of these files only, staged or not.
        repo: The repository's folder, or any folder in it.

    Returns:
        hash and subject of the new commit, and its files; hooks tells if Git's hooks were not run.

    Example:
        git.commit(message="docs: explain the limits", paths=["README.md"])
    """
    if not message.strip():
        raise ValueError("the message is empty")
    with_hooks, skipped = _hooks(repo)
    if paths:
        _git(repo, "add", "--", *paths, with_hooks=with_hooks)
    only = ["--only", "--", *paths] if paths else []
    _git(repo, "commit", "--quiet", "--no-gpg-sign", f"--message={message}", *only, with_hooks=with_hooks)
    (entry,) = log(limit=1, repo=repo)
    options = ["--no-ext-diff", "--no-textconv", "--numstat", "-z", "--no-renames", "--format="]
    changed = _git(repo, "show", *options, "HEAD", "--")
    return {"hash": entry["hash"], "subject": entry["subject"], "files": _numstat(changed), **skipped}


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
    with_hooks, skipped = _hooks(repo)
    _git(repo, "switch", "--quiet", *options, with_hooks=with_hooks)
    return {**status(repo), **skipped}


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
    top = _top(repo)
    options = ["--no-ext-diff", "--no-textconv", *_NAMES]
    changed = _git(repo, "diff", *options, "HEAD", known, "--", limit=MAX_NAMES).split("\0")
    root = resolve_path(".")
    for file in (top / name for name in changed if name):
        if root in file.parents:
            try:
                resolve_path(file, write=True)
            except PermissionError as error:
                reason = str(error).split("\n")[0]
                raise PermissionError(f"switching would change a file: {reason}\nhint: ask the user to switch") from None


def _top(repo: str) -> pathlib.Path:
    return pathlib.Path(_git(repo, "rev-parse", "--show-toplevel").rstrip("\n"))


def _is_readable(file: pathlib.Path) -> bool:
    try:
        resolve_path(file)
    except PermissionError:
        return False
    except (OSError, ValueError):
        # It is not there now; a link to nothing, for example.
        return True
    return True


def _is_writable(file: pathlib.Path) -> bool:
    try:
        resolve_path(file, write=True)
    except (OSError, ValueError):
        return False
    return True


def _hidden(repo: str, names: str) -> list[str]:
    """Of the names that Git listed, the files that tools may not read."""
    top = _top(repo)
    return sorted(name for name in set(filter(None, names.split("\0"))) if not _is_readable(top / name))


def _without(hidden: list[str]) -> list[str]:
    return [f":(top,exclude,literal,icase){name}" for name in hidden]


def _note(hidden: list[str]) -> str:
    """A first line, which programs that apply a diff skip."""
    if not hidden:
        return ""
    more = f" and {len(hidden) - 5} more" if len(hidden) > 5 else ""
    return f"# left out, because tools may not read them: {', '.join(hidden[:5])}{more}\n"


def _commits(repo: str, ref: str) -> str:
    """The full hash of a commit, or of both ends of a range: no other object, such as a file, can be meant."""
    if known := _commit(repo, _ref(ref)):
        return known
    if (parts := re.fullmatch(r"(.+)(\^[!@]|\^-\d*)", ref)) and (known := _commit(repo, parts[1])):
        return known + parts[2]
    ends = re.split(r"(\.{2,3})", ref, maxsplit=1)
    if len(ends) == 3:
        first, last = _commit(repo, ends[0] or "HEAD"), _commit(repo, ends[2] or "HEAD")
        if first and last:
            return first + ends[1] + last
    raise ValueError(f"'{ref}' is not a commit, a branch or a tag\nhint: git.show(ref, path) shows a file of a commit")


def _commit(repo: str, ref: str) -> str | None:
    """The full hash of a commit, also where a tag leads to it."""
    for suffix in ("", "^{commit}"):
        ref = _git(repo, "rev-parse", "--verify", "--quiet", ref + suffix, accept=(0, 1, 128)).strip()
        if not re.fullmatch(r"[0-9a-f]{40,64}", ref):
            return None
    return ref


def _check_settings(repo: str) -> None:
    """Stops where Git's settings are also in a file that tools can write, which would choose the programs that Git runs."""
    top = _top(repo)
    listed = _git(repo, "config", "--list", "--show-origin", "--name-only", "--includes", "-z", at=str(top)).split("\0")
    checked: dict = {}
    for origin, name in zip(listed[::2], listed[1::2]):
        if not origin.startswith("file:") or not _PROGRAMS.match(name):
            continue
        file = top / origin.removeprefix("file:")
        if file not in checked:
            checked[file] = _is_writable(file)
        if checked[file]:
            hint = "ask the user to move that setting to .git/config"
            raise PermissionError(f"{file} sets {name}, which starts programs, and tools can write that file\nhint: {hint}")


def _hooks(repo: str) -> tuple[bool, dict]:
    """Whether the repository's hooks may run, and otherwise what to say: they may not where tools can write them."""
    top = _top(repo)
    folder = top / _git(repo, "rev-parse", "--git-path", "hooks", at=str(top), with_hooks=True).rstrip("\n")
    hooks = [file for file in folder.iterdir() if file.is_file() and os.access(file, os.X_OK)] if folder.is_dir() else []
    hooks = [file for file in hooks if file.suffix != ".sample"]
    if not _is_writable(folder) and not any(_is_writable(file) for file in hooks):
        return True, {}
    told = f"not run: tools can write the files in {folder}, or those that they link to"
    return False, {"hooks": told} if hooks else {}


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


def _git(
    repo: str, *arguments: str, accept: tuple[int, ...] = (0,), limit: int = 0, at: str = "", with_hooks: bool = False
) -> str:
    program = shutil.which("git")
    if program is None:
        raise FileNotFoundError("git is not installed\nhint: install it, and see that it is in PATH")
    folder = resolve_path(repo)
    if not folder.is_dir():
        raise NotADirectoryError(f"{repo} is not a folder")
    if arguments[0] not in ("rev-parse", "config"):
        _check_settings(repo)
    hooks = [] if with_hooks else ["-c", "core.hooksPath=/dev/null"]
    environment = {**os.environ, **_GIT_ENVIRONMENT}
    limit, seconds = limit or _setting("max_bytes", MAX_BYTES), _setting("timeout", TIMEOUT)
    with tempfile.TemporaryFile() as talk:
        process = subprocess.Popen(
            [program, *_GIT_OPTIONS, *hooks, *arguments], cwd=at or folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=talk
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

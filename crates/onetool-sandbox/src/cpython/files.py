# Files as the program sees them: `open`, `os`, `pathlib`, `glob`, `shutil`, `tempfile` call the `file` pack.
#
# Nothing here has authority of its own: each operation is a call like any other, subject to the pack's roots,
# protection, policy and statistics. Paths outside the roots raise PermissionError and never look absent. Python's own
# library is read directly (the wall allows nothing else), and files made by `tempfile` live in the memory of this
# process.

import errno as _errno
import io as _io
import os as _os
import stat as _stat
import sys as _sys
import _weakref

_CHUNK = 1 << 20  # bytes read or written in one call
_WRITTEN_AT_ONCE = 8 << 20  # a larger file is written in pieces
_MEMORY = "/memory"  # where `tempfile` creates its files
_FIRST_DESCRIPTOR = 1 << 20  # of the descriptors used for files of this class; the system assigns smaller ones
_TIME_ZONES = ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo")
_LIBRARY = _os.path.dirname(_os.path.realpath(_os.__file__))
# Packages search the folder that they are installed in.
_PACKAGES = tuple(_os.path.dirname(place) for place in _sys.path if place and not place.startswith(_sys.base_prefix))
_OWN = tuple(
    place.rstrip("/") + "/"
    for place in (_LIBRARY, _sys.base_prefix, *_TIME_ZONES, *_sys.path, *_PACKAGES)
    if place not in ("/", "")
)
_KINDS = {"file": _stat.S_IFREG, "folder": _stat.S_IFDIR, "link": _stat.S_IFLNK}
_NUMBERS = {
    "FileNotFoundError": _errno.ENOENT,
    "PermissionError": _errno.EACCES,
    "IsADirectoryError": _errno.EISDIR,
    "NotADirectoryError": _errno.ENOTDIR,
    "FileExistsError": _errno.EEXIST,
}


_NO_HOME = "the home folder is not known in the sandbox; give the path in full, or start it at the working folder with ./"
_NO_FILES = "code may not use files (run.files: off); call a tool of the file pack instead, e.g. file.read(path)"


def _is_of_python(path):
    """Whether a path belongs to Python itself, or is not a path at all."""
    if isinstance(path, int):
        return True
    path = _os.fspath(path)
    if isinstance(path, bytes):
        path = _os.fsdecode(path)
    return path.startswith(_OWN)


def _as_os_error(error, path):
    """Converts an exception of a tool to the one that Python's own functions raise."""
    number = _NUMBERS.get(type(error).__name__)
    if number is None or error.errno is not None:
        return error
    text, _, hint = str(error).partition("\nhint: ")
    if number == _errno.EACCES:
        return PermissionError(number, "%s; %s" % (text, hint) if hint else text, path)
    made = OSError(number, _os.strerror(number), path)
    if hint and hasattr(made, "add_note"):
        made.add_note("hint: %s" % hint)
    return made


class _Files:
    """The file functions of a process. `mode` is the configured access: full, read or off."""

    def __init__(self, call):
        # Before the first program there are no files, so preloaded modules find none.
        self.mode, self.folder, self.cwd, self.call = "none", "", "", call
        self.unfinished, self.failures = [], []
        self.memory = {_MEMORY: None}  # None is a folder
        self.descriptors = {}  # returned by `tempfile.mkstemp`: paths, or files once they are written by number
        self.real = {}
        self.installed = set()
        self.replaced = []  # module, name and the original

    def allow(self, mode, folder):
        """Sets the access of the next program, and its working folder."""
        if self.cwd == self.folder:
            self.cwd = folder
        self.mode, self.folder, self.failures = mode, folder, []

    # Paths

    def path(self, path):
        """Returns the path as text, absolute if the working folder has changed."""
        path = _os.fspath(path)
        if isinstance(path, bytes):
            path = _os.fsdecode(path)
        if not path:
            raise FileNotFoundError(_errno.ENOENT, _os.strerror(_errno.ENOENT), path)
        if path.startswith(_MEMORY + "/") or path == _MEMORY:
            return _os.path.normpath(path)
        if path == "~" or path.startswith("~/"):
            raise PermissionError(_errno.EACCES, _NO_HOME, path)
        if not path.startswith("/") and self.cwd != self.folder:
            path = _os.path.join(self.cwd, path)
        return path

    def is_own(self, path):
        """Whether it belongs to Python itself rather than to the project, or is not a path at all."""
        return _is_of_python(path) and not (self.folder and str(path).startswith(self.folder + "/"))

    def in_memory(self, path):
        return path == _MEMORY or path.startswith(_MEMORY + "/")

    def tool(self, function, path, **arguments):
        if self.mode == "none":
            raise FileNotFoundError(_errno.ENOENT, _os.strerror(_errno.ENOENT), path)
        if self.mode == "off":
            raise PermissionError(_errno.EACCES, _NO_FILES, path)
        try:
            return self.call(function, path, arguments)
        except Exception as error:
            raise _as_os_error(error, path) from None

    def change(self, function, path, **arguments):
        if self.mode == "read":
            raise PermissionError(_errno.EACCES, "code may read files, not change them (run.files: read)", path)
        return self.tool(function, path, **arguments)

    # Contents

    def fetch(self, path, offset):
        return self.tool("read", path, byte_offset=offset, byte_limit=_CHUNK)

    def store(self, path, content, how):
        import binascii

        encoded = binascii.b2a_base64(content, newline=False).decode()
        try:
            self.change("write", path, content=encoded, encoding="base64", mode=how)
        except Exception as error:
            self.failures.append(error)
            raise

    def finish(self, keep):
        """Stores files that the program left open. The next program of a session may continue with them."""
        for reference in self.unfinished:
            file = reference()
            if file is not None and not file.closed:
                file.flush() if keep else file.close()

    def silenced(self, source):
        """Returns the error of an unclosed file, which Python drops; a program without `except` cannot have seen it."""
        return self.failures[0] if self.failures and "except" not in source and "suppress" not in source else None

    def exists(self, path):
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def open(self, file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
        if isinstance(file, int) and file in self.descriptors:
            return self.opened(file, mode, buffering, encoding, errors, newline)
        if opener is not None or self.is_own(file):
            return self.real["open"](file, mode, buffering, encoding, errors, newline, closefd, opener)
        if not isinstance(mode, str):
            raise TypeError("open() argument 'mode' must be str, not %s" % type(mode).__name__)
        letters = set(mode)
        if letters - set("rwxabt+") or len(mode) > len(letters) or len(letters & set("rwxa")) != 1:
            raise ValueError("invalid mode: %r" % mode)
        if "b" in letters and ("t" in letters or encoding is not None or errors is not None or newline is not None):
            what = "encoding" if encoding is not None else "errors" if errors is not None else "newline"
            raise ValueError("binary mode doesn't take an %s argument" % what)
        opened = self.raw(self.path(file), letters)
        if not isinstance(opened, _io.BytesIO) and not ("b" in letters and buffering == 0):
            opened = _io.BufferedReader(opened) if "r" in letters else _Buffered(opened)
        if "b" not in letters:
            opened = _io.TextIOWrapper(opened, "utf-8" if encoding in (None, "locale") else encoding, errors, newline)
            opened.mode = mode
        if letters & set("wax+"):
            self.unfinished = [one for one in self.unfinished if one() is not None]
            self.unfinished.append(_weakref.ref(opened))
        return opened

    def opened(self, number, mode, *options):
        """Opens a file for one of our descriptors, and closes the descriptor with it. Existing content is kept."""
        path = self.descriptors.pop(number)
        if not isinstance(path, str):
            path.close()
            path = path.name
        return self.open(path, mode.replace("w", "a") if "r" not in mode else mode, *options)

    def by_number(self, name):
        """Returns a version of `os.close`, `os.write` or similar that also accepts our descriptors."""
        real = getattr(_os, name)

        def function(number, *arguments):
            if number not in self.descriptors:
                return real(number, *arguments)
            if isinstance(self.descriptors[number], str):
                self.descriptors[number] = self.open(self.descriptors[number], "r+b")
            file = self.descriptors[number]
            if name == "close":
                del self.descriptors[number]
                file.close()
            elif name == "fsync":
                file.flush()
            elif name == "lseek":
                return file.seek(*arguments)
            else:
                return getattr(file, name)(*arguments)

        return function

    def raw(self, path, letters):
        if path == "/dev/null":
            return _io.BytesIO()
        if self.in_memory(path):
            return self.raw_in_memory(path, letters)
        if "r" in letters and "+" not in letters:
            return _Reading(self, path)
        if self.mode == "read":
            self.change("write", path)
        if "r" in letters:
            return _Updating(self, path, self.whole(path), "keep")
        present = self.exists(path)
        if present and _stat.S_ISDIR(self.stat(path).st_mode):
            raise IsADirectoryError(_errno.EISDIR, _os.strerror(_errno.EISDIR), path)
        if present and "x" in letters:
            raise FileExistsError(_errno.EEXIST, _os.strerror(_errno.EEXIST), path)
        if not present:
            self.check_parent(path)
        if "+" in letters:
            keep = "a" in letters and present
            return _Updating(self, path, self.whole(path) if keep else b"", "append" if "a" in letters else "replace")
        return _Writing(self, path, "append" if "a" in letters else "create" if "x" in letters else "replace")

    def check_parent(self, path):
        parent = _os.path.dirname(path)
        if parent and not self.exists(parent):
            raise FileNotFoundError(_errno.ENOENT, _os.strerror(_errno.ENOENT), path)

    def whole(self, path):
        reading = _Reading(self, path)
        return reading.readall() or b""

    def raw_in_memory(self, path, letters):
        present = path in self.memory
        if present and self.memory[path] is None:
            raise IsADirectoryError(_errno.EISDIR, _os.strerror(_errno.EISDIR), path)
        if ("r" in letters and not present) or _os.path.dirname(path) not in self.memory:
            raise FileNotFoundError(_errno.ENOENT, _os.strerror(_errno.ENOENT), path)
        if "x" in letters and present:
            raise FileExistsError(_errno.EEXIST, _os.strerror(_errno.EEXIST), path)
        if "w" in letters or not present:
            self.memory[path] = b""
        file = _Kept(self, path, self.memory[path])
        if "a" in letters:
            file.seek(0, 2)
        return file

    # Functions of `os`

    def stat(self, path, *, dir_fd=None, follow_symlinks=True):
        if dir_fd is not None or self.is_own(path):
            return self.real["stat"](path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        path = self.path(path)
        if self.in_memory(path):
            if path not in self.memory:
                raise FileNotFoundError(_errno.ENOENT, _os.strerror(_errno.ENOENT), path)
            content = self.memory[path]
            return self.status(path, "folder" if content is None else "file", len(content or b""), 0.0, 0o600)
        if path == "/" or (self.folder and (self.folder + "/").startswith(path.rstrip("/") + "/") and path != self.folder):
            return self.status(path, "folder", 0, 0.0, 0o755)
        # `os.path.realpath` checks each folder above Python's own.
        if not follow_symlinks and any(own.startswith(path.rstrip("/") + "/") for own in _OWN):
            return self.status(path, "folder", 0, 0.0, 0o755)
        found = self.tool("info", path, content=False, follow=follow_symlinks)
        mode = int(found.get("mode", "644"), 8)
        return self.status(path, found["type"], found["size"], found.get("mtime", 0.0), mode)

    def status(self, path, kind, size, modified, mode):
        import zlib

        place = _os.path.normpath(_os.path.join(self.cwd or "/", path))
        number = zlib.crc32(place.encode("utf-8", "surrogateescape"))
        whole = int(modified)
        return _os.stat_result((_KINDS.get(kind, 0) | mode, number, 1, 1, 0, 0, size, whole, whole, whole, modified, modified, modified))

    def lstat(self, path, *, dir_fd=None):
        return self.stat(path, dir_fd=dir_fd, follow_symlinks=False)

    def entries(self, path):
        path = self.path(path)
        if self.in_memory(path):
            inside = [other for other in self.memory if _os.path.dirname(other) == path and other != path]
            return [(_os.path.basename(other), "folder" if self.memory[other] is None else "file", len(self.memory[other] or b""), 0.0) for other in inside]
        listed = self.tool("list", path, details=True, times=True, limit=100_000)
        if listed["truncated"]:
            raise OSError(_errno.EOVERFLOW, "the folder has more entries than can be listed", path)
        return [(_os.path.basename(one["path"]), one["type"], one.get("size") or 0, one.get("mtime") or 0.0) for one in listed["entries"]]

    def listdir(self, path="."):
        path = "." if path is None else path
        return self.real["listdir"](path) if self.is_own(path) else [entry[0] for entry in self.entries(path)]

    def scandir(self, path="."):
        path = "." if path is None else path
        if self.is_own(path):
            return self.real["scandir"](path)
        given = _os.fspath(path)
        made = []
        for name, kind, size, modified in self.entries(path):
            full = _os.path.join(given, name)
            mode = 0o755 if kind == "folder" else 0o644
            made.append(_Entry(name, full, kind, self.status(full, kind, size, modified, mode)))
        return _Scan(made)

    def walking(self, real):
        """Returns `os.walk` that raises if it may not list the folder at its top, which would look empty."""

        def walk(top, topdown=True, onerror=None, followlinks=False):
            def failed(error):
                if isinstance(error, PermissionError) and error.filename in (_os.fspath(top), self.path(top)):
                    raise error

            return real(top, topdown, onerror or failed, followlinks)

        return walk

    def check_listed(self, path):
        """Raises if the program may not list a folder. One that is missing is no error."""
        path = _os.fspath(path)
        try:
            if not self.is_own(path) and not self.in_memory(self.path(path)):
                self.entries(path) if _os.path.isabs(path) else self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            pass

    def getcwd(self):
        return self.cwd or "/"

    def chdir(self, path):
        place = _os.path.normpath(_os.path.join(self.getcwd(), self.path(path)))
        if not _stat.S_ISDIR(self.stat(place).st_mode):
            raise NotADirectoryError(_errno.ENOTDIR, _os.strerror(_errno.ENOTDIR), path)
        self.cwd = place

    def mkdir(self, path, mode=0o777, *, dir_fd=None):
        path = self.path(path)
        if self.in_memory(path):
            if path in self.memory:
                raise FileExistsError(_errno.EEXIST, _os.strerror(_errno.EEXIST), path)
            if _os.path.dirname(path) not in self.memory:
                raise FileNotFoundError(_errno.ENOENT, _os.strerror(_errno.ENOENT), path)
            self.memory[path] = None
            return
        self.check_parent(path.rstrip("/"))
        self.change("make_folder", path)

    def remove(self, path, *, dir_fd=None):
        path = self.path(path)
        if _stat.S_ISDIR(self.lstat(path).st_mode):
            raise IsADirectoryError(_errno.EISDIR, _os.strerror(_errno.EISDIR), path)
        self.discard(path)

    def rmdir(self, path, *, dir_fd=None):
        path = self.path(path)
        if self.entries(path):
            raise OSError(_errno.ENOTEMPTY, _os.strerror(_errno.ENOTEMPTY), path)
        self.discard(path)

    def discard(self, path, recursive=False):
        if self.in_memory(path):
            for other in [other for other in self.memory if other == path or other.startswith(path + "/")]:
                del self.memory[other]
        else:
            self.change("delete", path, recursive=recursive)

    def rename(self, source, target, *, src_dir_fd=None, dst_dir_fd=None):
        source, target = self.path(source), self.path(target)
        if self.in_memory(source) or self.in_memory(target):
            with self.open(source, "rb") as reading, self.open(target, "wb") as writing:
                writing.write(reading.read())
            self.discard(source)
            return
        self.change("move", source, target=target)

    def access(self, path, mode, *, dir_fd=None, effective_ids=False, follow_symlinks=True):
        if self.is_own(path):
            return self.real["access"](path, mode)
        return self.exists(self.path(path)) and not (mode & _os.W_OK and self.mode == "read")

    def os_open(self, path, flags, mode=0o777, *, dir_fd=None):
        if self.is_own(path):
            return self.real["os_open"](path, flags, mode, dir_fd=dir_fd)
        raise PermissionError(_errno.EPERM, "the sandbox has no file descriptors for files; use open()", path)

    def utime(self, path, *_, **__):
        self.stat(path)

    # Functions built on `os`

    def tests(self):
        """Returns `os.path.exists` and similar: a missing path is False, a forbidden one is an error."""

        def found(path, test, follow=True):
            try:
                return test(self.stat(path, follow_symlinks=follow).st_mode)
            except (FileNotFoundError, NotADirectoryError, ValueError):
                return False

        def link(path):
            # Does not check existence, and os.walk() calls it for every folder: a forbidden one is not a link.
            try:
                return found(path, _stat.S_ISLNK, False)
            except PermissionError:
                return False

        present = lambda mode: True
        return {
            "exists": lambda path: found(path, present),
            "lexists": lambda path: found(path, present, False),
            "isfile": lambda path: found(path, _stat.S_ISREG),
            "isdir": lambda path: found(path, _stat.S_ISDIR),
            "islink": link,
        }

    def install(self, source):
        """Replaces the real functions. Modules that the program does not name are left alone."""
        if not self.installed:
            self.install_base()
        for name, install in (
            ("pathlib", self.install_pathlib),
            ("shutil", self.install_shutil),
            ("glob", self.install_glob),
            ("tempfile", self.install_tempfile),
            ("mimetypes", self.install_mimetypes),
        ):
            # Packages use them even if the program does not name them.
            if name not in self.installed and (name in source or name in _sys.modules):
                self.installed.add(name)
                install()

    def replace(self, module, name, function):
        self.replaced.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def install_base(self):
        import builtins
        import genericpath

        if _sys.version_info < (3, 11):
            import pathlib  # which keeps `io.open` for itself, and must find the real one

        self.real = {"open": _io.open, "os_open": _os.open}
        self.real.update({name: getattr(_os, name) for name in ("stat", "lstat", "listdir", "scandir", "access")})

        def open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
            return self.open(file, mode, buffering, encoding, errors, newline, closefd, opener)

        self.replace(builtins, "open", open)
        self.replace(_io, "open", open)
        for name in ("stat", "lstat", "listdir", "scandir", "getcwd", "chdir", "mkdir", "remove", "rmdir", "rename", "access", "utime"):
            self.replace(_os, name, getattr(self, name))
        for name, function in (("open", self.os_open), ("unlink", self.remove), ("replace", self.rename)):
            self.replace(_os, name, function)
        self.replace(_os, "walk", self.walking(_os.walk))
        for name, test in self.tests().items():
            for module in (_os.path, genericpath):
                if hasattr(module, name):
                    self.replace(module, name, test)

        self.installed.add("os")

    def install_pathlib(self):
        import pathlib

        def touch(path, mode=0o666, exist_ok=True):
            if not self.exists(path):
                self.open(path, "xb").close()
            elif not exist_ok:
                raise FileExistsError(_errno.EEXIST, _os.strerror(_errno.EEXIST), str(path))

        def checked(real):
            def function(path, *arguments, **options):
                self.check_listed(path)
                return real(path, *arguments, **options)

            return function

        self.replace(pathlib.Path, "touch", touch)
        for name in ("glob", "rglob", "walk"):
            if hasattr(pathlib.Path, name):
                self.replace(pathlib.Path, name, checked(getattr(pathlib.Path, name)))

    def install_shutil(self):
        import shutil

        def rmtree(path, ignore_errors=False, onerror=None, **_):
            try:
                if not _stat.S_ISDIR(self.lstat(path).st_mode):
                    raise NotADirectoryError(_errno.ENOTDIR, _os.strerror(_errno.ENOTDIR), str(path))
                self.discard(self.path(path), recursive=True)
            except OSError:
                if not ignore_errors:
                    raise

        self.replace(shutil, "rmtree", rmtree)
        for name in ("copystat", "copymode"):
            self.replace(shutil, name, lambda *_, **__: None)
        # No program can be started, so none is found.
        self.replace(shutil, "which", lambda cmd, mode=1, path=None: None)

    def install_glob(self):
        import glob

        real_glob, real_iglob = glob.glob, glob.iglob

        def checked(pattern, root_dir):
            base = _os.path.dirname(_os.fspath(pattern).partition("*")[0].partition("?")[0].partition("[")[0])
            if root_dir is not None:
                base = _os.path.join(_os.fspath(root_dir), base)
            if base:
                self.exists(base)

        def glob_(pathname, *, root_dir=None, **options):
            checked(pathname, root_dir)
            return real_glob(pathname, root_dir=root_dir, **options)

        def iglob(pathname, *, root_dir=None, **options):
            checked(pathname, root_dir)
            return real_iglob(pathname, root_dir=root_dir, **options)

        self.replace(glob, "glob", glob_)
        self.replace(glob, "iglob", iglob)

    def install_mimetypes(self):
        import mimetypes

        self.replace(mimetypes, "knownfiles", [])  # the system's own lists; types are known without them

    def install_tempfile(self):
        import tempfile

        numbers = iter(range(1, 1 << 30))

        def name(suffix, prefix, folder):
            return _os.path.join(folder or _MEMORY, "%s%06d%s" % (prefix or "tmp", next(numbers), suffix or ""))

        def mkdtemp(suffix=None, prefix=None, dir=None):
            path = name(suffix, prefix, dir)
            self.mkdir(path)
            return path

        def named(mode="w+b", buffering=-1, encoding=None, newline=None, suffix=None, prefix=None, dir=None, delete=True, **options):
            path = name(suffix, prefix, dir)
            file = self.open(path, mode.replace("w", "x"), buffering, encoding, options.get("errors"), newline)
            if self.in_memory(path):
                getattr(file, "buffer", file).is_temporary = delete
            return file

        def temporary(mode="w+b", buffering=-1, encoding=None, newline=None, *_, **options):
            return named(mode, buffering, encoding, newline, **{**options, "delete": True})

        def mkstemp(suffix=None, prefix=None, dir=None, text=False):
            path = name(suffix, prefix, dir)
            self.open(path, "xb").close()
            number = _FIRST_DESCRIPTOR + next(numbers)
            self.descriptors[number] = path
            return number, path

        for function in ("close", "write", "read", "lseek", "fsync"):
            self.replace(_os, function, self.by_number(function))

        self.replace(tempfile, "tempdir", _MEMORY)
        self.replace(tempfile, "mkdtemp", mkdtemp)
        self.replace(tempfile, "mkstemp", mkstemp)
        self.replace(tempfile, "NamedTemporaryFile", named)
        self.replace(tempfile, "TemporaryFile", temporary)

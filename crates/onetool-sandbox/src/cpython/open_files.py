# The objects that `open` and `os.scandir` return: files that are read in pieces, written whole, or held in memory.

class _Entry:
    """An entry returned by `os.scandir`."""

    __slots__ = ("name", "path", "_kind", "_stat")

    def __init__(self, name, path, kind, status):
        self.name, self.path, self._kind, self._stat = name, path, kind, status

    def __fspath__(self):
        return self.path

    def __repr__(self):
        return "<DirEntry %r>" % self.name

    def is_symlink(self):
        return self._kind == "link"

    def is_dir(self, *, follow_symlinks=True):
        return self._is(follow_symlinks, "folder", _stat.S_ISDIR)

    def is_file(self, *, follow_symlinks=True):
        return self._is(follow_symlinks, "file", _stat.S_ISREG)

    def _is(self, follow, kind, test):
        if self._kind != "link" or not follow:
            return self._kind == kind
        try:
            return test(_os.stat(self.path).st_mode)
        except FileNotFoundError:
            return False

    def stat(self, *, follow_symlinks=True):
        if self._kind == "link" and follow_symlinks:
            return _os.stat(self.path)
        return self._stat

    def inode(self):
        return self._stat.st_ino


class _Scan:
    def __init__(self, entries):
        self._entries = iter(entries)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._entries = iter(())


class _Reading(_io.RawIOBase):
    """A file that is read in pieces."""

    def __init__(self, files, path):
        super().__init__()
        self._files, self.name, self.mode = files, path, "rb"
        self._at = self._start = 0
        self._piece = files.fetch(path, 0)
        self._size = len(self._piece) if len(self._piece) < _CHUNK else None

    def readable(self):
        return True

    def seekable(self):
        return True

    def readinto(self, target):
        offset = self._at - self._start
        if not 0 <= offset < len(self._piece):
            if self._size is not None and self._at >= self._size:
                return 0
            self._piece, self._start, offset = self._files.fetch(self.name, self._at), self._at, 0
            if len(self._piece) < _CHUNK:
                self._size = self._start + len(self._piece)
        count = min(len(target), len(self._piece) - offset)
        target[:count] = self._piece[offset : offset + count]
        self._at += count
        return count

    def seek(self, offset, whence=0):
        if whence == 2 and self._size is None:
            self._size = _os.stat(self.name).st_size
        base = (0, self._at, self._size)[whence]
        if base + offset < 0:
            raise OSError(_errno.EINVAL, "Invalid argument")
        self._at = base + offset
        return self._at

    def tell(self):
        return self._at


class _Buffered(_io.BufferedWriter):
    """A writer whose flush reaches the file, not only the raw stream."""

    def flush(self):
        super().flush()
        self.raw.flush()


class _Writing(_io.RawIOBase):
    """A file that is written whole when it is closed or flushed; later data is appended. Once it is written elsewhere
    than at its end, it is held in memory."""

    def __init__(self, files, path, how):
        super().__init__()
        self._files, self.name, self._how = files, path, how
        self.mode = "ab" if how == "append" else "wb"
        self._pending, self._count = [], 0
        self._end = self._at = _os.stat(path).st_size if how == "append" and files.exists(path) else 0
        self._whole = None

    def writable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self._at

    def seek(self, offset, whence=0):
        at = offset + (0, self._at, self._end)[whence]
        if at < 0:
            raise OSError(_errno.EINVAL, _os.strerror(_errno.EINVAL))
        self._at = at
        return at

    def truncate(self, size=None):
        size = self._at if size is None else size
        if size != self._end:
            whole = self.whole()
            whole.seek(0, 2)
            whole.write(bytes(max(0, size - whole.tell())))
            whole.truncate(size)
            self._end = size
        return size

    def whole(self):
        """Returns all of its content, in memory."""
        if self._whole is None:
            stored = self._files.whole(self.name) if self._how in ("stored", "append") and self._files.exists(self.name) else b""
            self._whole = _io.BytesIO(stored + b"".join(self._pending))
            self._pending, self._count = [], 0
        return self._whole

    def write(self, data):
        data = bytes(data)
        if self.mode == "ab":
            self._at = self._end
        if self._at != self._end or self._whole is not None:
            whole = self.whole()
            whole.seek(self._at)
            whole.write(data)
        else:
            self._pending.append(data)
            self._count += len(data)
        self._at += len(data)
        self._end = max(self._end, self._at)
        if self._count >= _WRITTEN_AT_ONCE:
            self.store()
        return len(data)

    def store(self):
        if self._whole is not None:
            self._files.store(self.name, self._whole.getvalue(), "replace")
            self._how = "stored"
        elif self._how == "stored":
            if self._pending:
                self._files.store(self.name, b"".join(self._pending), "append")
        elif self._pending or self._how != "append":
            self._files.store(self.name, b"".join(self._pending), self._how)
            self._how = "stored"
        self._pending, self._count = [], 0

    def flush(self):
        if not self.closed and (self._pending or self._whole is not None):
            self.store()

    def close(self):
        if not self.closed:
            try:
                self.store()
            finally:
                super().close()


class _Updating(_io.BytesIO):
    """A file opened for reading and writing: held in memory, and stored when it is closed or flushed."""

    def __init__(self, files, path, content, how):
        super().__init__(content)
        self._files, self.name, self._how = files, path, how
        self._stored = content if how == "keep" else None
        self.mode = "rb+"
        if how == "append":
            self.seek(0, 2)

    def write(self, data):
        if self._how == "append":
            self.seek(0, 2)
        return super().write(data)

    def flush(self):
        if not self.closed and self._stored != self.getvalue():
            self._stored = self.getvalue()
            self._files.store(self.name, self._stored, "replace")

    def close(self):
        if not self.closed:
            try:
                self.flush()
            finally:
                super().close()


class _Kept(_io.BytesIO):
    """A file in the memory of this process."""

    def __init__(self, files, path, content):
        super().__init__(content)
        self._files, self.name, self.is_temporary = files, path, False

    def flush(self):
        if not self.closed and self.name in self._files.memory:
            self._files.memory[self.name] = self.getvalue()

    def close(self):
        self.flush()
        if self.is_temporary:
            self._files.memory.pop(self.name, None)
        super().close()

ot.version()
[file.info(path=n) for n in range(3) if isinstance(n, str)]

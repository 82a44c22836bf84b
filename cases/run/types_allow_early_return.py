n = 5
if isinstance(n, int):
    return ot.version() != ''
file.info(path=n)

n = 3 * 2
if n:
    return file.info(path=n)
return ot.version()
n = 5
if n > 10:
    file.info(path=n)
ot.version() != ''
ot.version()
n = 5
info(path=n)
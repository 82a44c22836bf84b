def info(path):
    return path * 2
n = 5
ot.version()
ot.version()
info(n)
n = 0
path = n
while not isinstance(path, str):
    n += 1
    path = 'app' if n > 2 else n
ot.version()
file.info(path=path)['type']
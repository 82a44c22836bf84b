depth = 4 / 2
ot.version()
len(file.list(path='app', depth=depth, details=True)['entries'])
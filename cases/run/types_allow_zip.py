ot.version()
[file.list(path=p, depth=d, details=True)['path'] for p, d in zip(['app'], [1])]
ot.version()
[file.list(path=p, depth=d)['path'] for p, d in zip(['app'], [1])]
names = sorted(['app', 'app/src'], key=lambda name: -len(name))
[file.info(path=name)['type'] for name in names] + [ot.version() != '']
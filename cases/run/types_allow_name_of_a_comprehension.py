path = 5
ot.version()
[file.info(path=path)['type'] for path in ['app']]
d = {}
ot.version()
file.info(path=d.get('path', 'app'))['type']
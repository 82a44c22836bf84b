d = {'n': 1}
d.setdefault('path', 'app')
ot.version()
file.info(path=d['path'])['type']
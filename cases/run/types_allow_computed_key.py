d = {'a': 1}
key = 'a'
d[key] = 'app'
ot.version()
file.info(path=d['a'])['type']
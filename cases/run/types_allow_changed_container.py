d = {'a': 1}
d['a'] = 'app'
ot.version()
file.info(path=d['a'])['type']
d = {'a': 1, 'b': 'app'}
ot.version()
file.info(path=d['b'])['type']
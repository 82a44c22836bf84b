d = {'n': 1}
d.update({'n': 'app'})
ot.version()
file.info(path=d['n'])['type']
d = {'n': 1} | {'n': 'app'}
ot.version()
file.info(path=d['n'])['type']
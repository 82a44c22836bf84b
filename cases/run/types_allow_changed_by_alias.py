a = {'k': 5}
b = a
b['k'] = 'app'
ot.version()
file.info(path=a['k'])['type']
a = 5
b = 'app'
a, b = b, a
ot.version()
file.info(path=a)['type']
x = 5
while x != 'app':
    x = 'app'
ot.version()
file.info(path=x)['type']
len = lambda text: 'app'
ot.version()
file.info(path=len('x'))['type']
number, path = [1, 'app']
ot.version()
file.info(path=path)['type']
path = len('') or 'app'
ot.version()
file.info(path=path)['type']
path = 5 if ot.version() == '' else 'app'
file.info(path=path)['type']
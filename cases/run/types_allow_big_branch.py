mode = 5
if ot.version() != '':
    mode = 'app'
file.info(path=mode)['type']
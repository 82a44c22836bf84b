ot.version()
if (path := 'app'):
    kind = file.info(path=path)['type']
kind
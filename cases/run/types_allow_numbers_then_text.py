for path in range(2):
    pass
path = file.list(path='app', details=True)['path']
file.info(path=path)['type']
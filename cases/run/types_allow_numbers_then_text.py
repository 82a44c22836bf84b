for path in range(2):
    pass
path = file.list(path='app')['path']
file.info(path=path)['type']
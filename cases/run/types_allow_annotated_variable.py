path: int = file.list(path='app', details=True)['path']
file.info(path=path)['type']
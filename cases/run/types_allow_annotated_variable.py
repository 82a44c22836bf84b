path: int = file.list(path='app')['path']
file.info(path=path)['type']
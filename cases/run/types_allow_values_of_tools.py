listing = file.list(path='app', depth=2, details=True)
path = listing['entries'][0]['path']
file.info(path=path)['type']
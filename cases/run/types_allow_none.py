limit = None
ot.version()
len(file.list(path='app', limit=limit, details=True)['entries'])
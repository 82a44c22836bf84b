arguments = ['app', 2]
ot.version()
len(file.list(*arguments, details=True)['entries'])
def str(x):
    return 1
ot.version()
len_ = str('x')
file.list(path='app', depth=len_, details=True)['path']
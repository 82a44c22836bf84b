path = 5
def choose():
    global path
    path = 'app'
choose()
ot.version()
file.info(path=path)['type']
path = 5
def kind():
    return file.info(path=path)['type']
path = 'app'
ot.version()
kind()
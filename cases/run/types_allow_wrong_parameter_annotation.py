def kind(path: int = 5):
    return file.info(path=path)['type']
ot.version()
kind('app')
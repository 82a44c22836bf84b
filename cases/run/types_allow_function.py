def kind(path):
    return file.info(path=path)['type']
[kind('app'), kind(path='app/src')]
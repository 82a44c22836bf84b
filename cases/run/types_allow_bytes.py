ot.version()
file.info(path='app'.encode())['type']
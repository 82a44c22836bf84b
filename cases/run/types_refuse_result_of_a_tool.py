details = file.info(path='app')
file.read(path=details)

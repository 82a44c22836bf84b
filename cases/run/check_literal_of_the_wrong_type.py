ot.version()
file.read(path=5)
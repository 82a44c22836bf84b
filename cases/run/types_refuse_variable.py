ot.version()
n = len('abc')
file.read(path=n)
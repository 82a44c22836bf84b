items = [1, 2]
items[0:1] = ['app']
ot.version()
file.info(path=items[0])['type']
path = 0
for step in range(2):
    if step:
        path = file.info(path=path)['type']
    else:
        path = 'app'
ot.version()
path
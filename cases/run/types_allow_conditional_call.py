n = 'x' if ot.version() else 5
file.write(path='n.txt', content=f'{n}')['created']
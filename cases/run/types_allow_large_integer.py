n = 10 ** 30
ot.version()
file.write(path='big.txt', content=n)['created']
__check__ = False
n = 5
print(ot.version() != '')
file.info(path=n)
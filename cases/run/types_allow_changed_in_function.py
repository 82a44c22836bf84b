paths = [1]
def fill(target):
    target.append('app')
fill(paths)
ot.version()
file.info(path=paths[-1])['type']
paths = [1]
put = paths.append
def fill(action):
    action('app')
fill(put)
ot.version()
file.info(path=paths[-1])['type']
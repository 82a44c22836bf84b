x = 5
if isinstance(x, str):
    file.info(path=x)
file.info(path='app')['type']
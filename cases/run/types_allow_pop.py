stack = [1, 'app']
ot.version()
file.info(path=stack.pop())['type']
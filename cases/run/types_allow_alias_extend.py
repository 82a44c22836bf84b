stack = [1]
other = stack
other += ['app']
ot.version()
file.info(path=stack[-1])['type']
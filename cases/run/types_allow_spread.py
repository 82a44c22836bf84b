arguments = {'path': 'app'}
ot.version()
file.info(**arguments)['type']
wanted = ['files', 'text'][0]
ot.version()
file.grep(pattern='hello', path='app', output=wanted)['paths']
x = 5
try:
    x = 'app'
finally:
    ot.version()
file.info(path=x)['type']
import sys
x = 5
if sys.platform != 'linux' or sys.platform == 'linux':
    x = 'app'
ot.version()
file.info(path=x)['type']
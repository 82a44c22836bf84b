def ask():
    n = len('a')
    return file.info(path=n)
result = ''
try:
    ask()
except Exception:
    result = 'caught'
ot.version()
result
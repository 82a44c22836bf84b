n = 5
try:
    file.info(path=n)
except Exception:
    n = 'caught'
ot.version()
n
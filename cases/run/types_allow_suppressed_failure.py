class Quiet:
    def __enter__(self):
        return self
    def __exit__(self, kind, error, trace):
        return True
n = 5
ot.version()
with Quiet():
    file.info(path=n)
with Quiet():
    file.info(path=6)
'went on'
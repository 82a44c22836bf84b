def g():
    yield 1
    yield 2
list(g())
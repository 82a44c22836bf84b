def g():
    yield ws(query='a')['query']
list(g())
def squares():
    for n in range(4):
        yield n * n
squares()
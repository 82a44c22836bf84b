def f():
    a = 1

    return a


f()
def f(a):
    return a['x']

f({})
def f(x):
    print("f", x)
    return x
for y in map(f, [1, 2]):
    print("got", y)
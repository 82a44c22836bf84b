def f(x):
    print("f", x)
    return x > 1
print(any(f(x) for x in [1, 2, 3]), all(f(x) for x in [3, 1, 2]))
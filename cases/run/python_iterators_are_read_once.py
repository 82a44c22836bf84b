m = map(lambda x: x * 2, [3, 1])
print(list(m), list(m))
z = zip("ab", [1, 2])
for pair in z:
    print(pair)
print(list(z))
g = (x for x in [])
print("true" if g else "false")
xs = [1, 2, 3, 4]
for i, x in enumerate(xs):
    xs.pop(i)
print(xs)
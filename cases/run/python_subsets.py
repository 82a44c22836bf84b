a = {1, 2}
b = {1, 2, 3}
print(a <= b, a < b, b >= a, {1} > a)
def numbers(n):
    for i in range(n):
        yield i
print(list(numbers(3)), sum(x * x for x in numbers(4)), next(numbers(1)))
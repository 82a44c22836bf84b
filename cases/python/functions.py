def greet(name, greeting="Hello", *, mark="!"):
    return f"{greeting}, {name}{mark}"


print(greet("Ann"), greet("Bob", "Hi", mark="?"))
# %%
def total(*args, **kwargs):
    return sum(args) + sum(kwargs.values()), sorted(kwargs)


print(total(1, 2, a=3, b=4))
# %%
def make_counter():
    count = 0

    def increment():
        nonlocal count
        count += 1
        return count

    return increment


c = make_counter()
print(c(), c(), c())
# %%
def apply(f, items):
    return [f(x) for x in items]


print(apply(lambda x: x ** 2, [1, 2, 3]), apply(str, [1, 2]))
# %%
import functools


@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


print(fib(60), fib.cache_info().misses)
# %%
import functools


def logged(f):
    @functools.wraps(f)
    def wrapper(*args):
        print("calling", f.__name__, args)
        return f(*args)

    return wrapper


@logged
def add(a, b):
    return a + b


print(add(1, 2))
# %%
from functools import reduce, partial

print(reduce(lambda a, b: a * b, [1, 2, 3, 4]), partial(pow, 2)(5))
# %%
def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


print(factorial(20))
# %%
def swap(a, b):
    return b, a


x, y = swap(1, 2)
print(x, y)
# %%
def f(items=[]):
    items.append(1)
    return items


print(f(), f())
# %%
square = lambda x: x * x
print(square(4), (lambda a, b=2: a + b)(1), sorted("bca", key=lambda c: -ord(c)))
# %%
def describe(n: int) -> str:
    """Say what a number is."""
    if n < 0:
        return "negative"
    elif n == 0:
        return "zero"
    return "positive"


print([describe(n) for n in (-1, 0, 1)], describe.__doc__, describe.__annotations__)
# %%
def outer():
    x = "outer"

    def inner():
        return x

    x = "changed"
    return inner()


print(outer())
# %%
x = 10


def show():
    global x
    x += 1
    return x


print(show(), x)
# %%
def power(base, exponent):
    if exponent == 0:
        return 1
    half = power(base, exponent // 2)
    return half * half * (base if exponent % 2 else 1)


print(power(3, 13), power(2, 64))
# %%
def hanoi(n, a="A", b="B", c="C"):
    if n == 0:
        return []
    return hanoi(n - 1, a, c, b) + [(a, c)] + hanoi(n - 1, b, a, c)


print(len(hanoi(5)), hanoi(2))
# %%
def countdown(n):
    while n > 0:
        yield n
        n -= 1


print(list(countdown(3)), sum(countdown(4)))
# %%
def primes():
    n, found = 2, []
    while True:
        if all(n % p for p in found):
            found.append(n)
            yield n
        n += 1


import itertools

print(list(itertools.islice(primes(), 8)))
# %%
def chain(*iterables):
    for iterable in iterables:
        yield from iterable


print(list(chain([1, 2], "ab")))
# %%
def averager():
    total = count = 0
    average = None
    while True:
        value = yield average
        total += value
        count += 1
        average = total / count


a = averager()
next(a)
print(a.send(10), a.send(20))
# %%
add = lambda a: lambda b: a + b
print(add(2)(3), [f(10) for f in [add(i) for i in range(3)]])
# %%
def divide(a, b):
    try:
        result = a / b
    except ZeroDivisionError:
        return "infinite"
    else:
        return result
    finally:
        print("divided")


print(divide(1, 2), divide(1, 0))
# %%
def validate(age):
    if not isinstance(age, int):
        raise TypeError("age must be an int")
    if age < 0:
        raise ValueError(f"age is {age}")
    return age


for value in (5, -1, "x"):
    try:
        print(validate(value))
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error)
# %%
class AppError(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


try:
    raise AppError(7)
except AppError as error:
    print(error, error.code)
# %%
try:
    try:
        {}["a"]
    except KeyError as error:
        raise RuntimeError("lookup failed") from error
except RuntimeError as error:
    print(error, repr(error.__cause__))
# %%
assert 1 + 1 == 2
try:
    assert False, "broken"
except AssertionError as error:
    print("assertion:", error)
# %%
import contextlib


@contextlib.contextmanager
def tag(name):
    print(f"<{name}>")
    yield name.upper()
    print(f"</{name}>")


with tag("b") as t:
    print(t)
# %%
for i in range(3):
    for j in range(3):
        if j == 1:
            continue
        if i == 2:
            break
        print(i, j)
else:
    print("done")
# %%
n = 7
while n > 1:
    n = n // 2 if n % 2 == 0 else 3 * n + 1
    if n == 16:
        print("sixteen")
        break
# %%
print([y for x in range(4) if (y := x * 3) > 3])

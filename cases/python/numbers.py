print(7 // 2, -7 // 2, 7 % 3, -7 % 3, divmod(17, 5), 2 ** 10, 7 / 2)
# %%
print(round(2.5), round(3.5), round(2.675, 2), round(1234, -2), int("42") + float("1.5"))
# %%
print(0.1 + 0.2, 0.1 + 0.2 == 0.3, abs(0.3 - (0.1 + 0.2)) < 1e-9)
# %%
print(int("ff", 16), int("0b101", 0), bin(10), oct(8), hex(255), (255).bit_length())
# %%
print(10 ** 30, 2 ** 100 % 97, pow(3, 200, 13), -5 ** 2)
# %%
import math

print(math.sqrt(2), math.pi, math.floor(-1.5), math.ceil(1.2), math.gcd(12, 18), math.factorial(10))
# %%
import math

print(math.isclose(0.1 + 0.2, 0.3), math.log2(8), math.hypot(3, 4), math.comb(5, 2), math.prod([1, 2, 3]))
# %%
import math

print(round(math.sin(math.radians(30)), 6), round(math.degrees(math.pi), 3), math.inf > 10 ** 100, math.isnan(math.nan))
# %%
import statistics

data = [2, 4, 4, 4, 5, 5, 7, 9]
print(statistics.mean(data), statistics.median(data), statistics.mode(data), statistics.pstdev(data))
# %%
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))


print([n for n in range(50) if is_prime(n)])
# %%
def fib(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


print([fib(n) for n in range(15)], fib(100))
# %%
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


print(gcd(48, 36), 48 * 36 // gcd(48, 36))
# %%
def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


print([collatz(n) for n in range(1, 10)])
# %%
n = 28
print(sum(d for d in range(1, n) if n % d == 0) == n, [d for d in range(1, n + 1) if n % d == 0])
# %%
print(sum(int(d) for d in str(2 ** 50)), int(str(12345)[::-1]))
# %%
from decimal import Decimal, ROUND_HALF_UP

print(Decimal("0.1") + Decimal("0.2"), Decimal("2.675").quantize(Decimal("0.01"), ROUND_HALF_UP))
# %%
from fractions import Fraction

print(Fraction(1, 3) + Fraction(1, 6), Fraction("0.75"), float(Fraction(1, 8)))
# %%
print(complex(1, 2) * 2, abs(3 + 4j), (1 + 2j).conjugate())
# %%
print(float("inf"), float("-inf"), float("nan"), 1e16, 1e-5, 123456789.123456789)
# %%
print(1_000_000, 0x1F, 0b11, 0o17, 1e3, .5, 5.)
# %%
principal, rate = 1000, 0.05
for year in range(1, 4):
    principal *= 1 + rate
    print(f"year {year}: {principal:.2f}")
# %%
primes, n = [], 2
while len(primes) < 10:
    if all(n % p for p in primes):
        primes.append(n)
    n += 1
print(primes)
# %%
print(sum(range(1, 101)), sum(n for n in range(1000) if n % 3 == 0 or n % 5 == 0))
# %%
for n in range(1, 16):
    print("FizzBuzz" if n % 15 == 0 else "Fizz" if n % 3 == 0 else "Buzz" if n % 5 == 0 else n, end=" ")
print()
# %%
print(True + True, True == 1, bool(0.0), bool("0"), not [], None is None)
# %%
print(5 & 3, 5 | 3, 5 ^ 3, ~5, 1 << 4, 256 >> 2)
# %%
try:
    1 / 0
except ZeroDivisionError as error:
    print(type(error).__name__, error)
# %%
try:
    int("twelve")
except ValueError as error:
    print(error)
# %%
print(max(1, 2.5), min(3, True), sorted([1.5, 1, 2]), sum([0.1] * 3))
# %%
celsius = [0, 20, 37.5, 100]
print([f"{c * 9 / 5 + 32:.1f}" for c in celsius])
# %%
print(1.05 ** 10, [round(1000 * 1.07 ** y, 10) for y in range(8)], pow(1.05, 10), 10 ** -6)
# %%
x = 1.05
x **= 10
y = 5.0
y //= 0.1
print(x, y, 5.0 // 0.1, 7.5 // 2, -7 // 2)
# %%
def payment(amount, rate, months):
    r = rate / 12
    return amount * r * (1 + r) ** months / ((1 + r) ** months - 1)


print(payment(250000, 0.041, 360))
# %%
values = [1.1, 2.35, 3.7, 0.1]
mean = sum(values) / len(values)
print((sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5, [v ** 3 for v in values])
# %%
import math

print([math.gamma(x / 7) for x in range(1, 30)], math.erf(0.3), math.cbrt(7), math.asinh(0.3), math.lgamma(2.7))
# %%
squares = [1, 2, 3]
other = squares
other.append(1.1)
print([x ** 3 for x in squares])

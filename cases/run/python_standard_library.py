import base64, csv, hashlib, io, itertools, statistics, textwrap
from collections import Counter, OrderedDict
from decimal import Decimal
from functools import lru_cache
@lru_cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(50), statistics.stdev([1, 2, 3, 4]), Decimal("0.1") + Decimal("0.2"), Counter("mississippi").most_common(2), hashlib.sha256(b"x").hexdigest()[:8])
print([(k, list(g)) for k, g in itertools.groupby("aab")], list(csv.DictReader(io.StringIO("a,b\n1,2\n"))), textwrap.shorten("hello big world", 8), base64.b64encode(b"hi"))
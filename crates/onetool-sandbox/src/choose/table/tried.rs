//! Programs that the table cannot hold, because they call tools or name what nothing defines: the choice of an engine
//! for them. All others are entries of `monty.tsv`, which both engines run.

/// Programs that Monty runs.
pub(in crate::choose) const TRIED_IN_MONTY: &[&str] = &[
    "",
    "brave.search(q='x')",
    "xs = [brave.search(q=q) for q in ('a', 'b')]\nxs",
    "import asyncio\nawait asyncio.gather(a.b(), a.c())",
    "from datetime import datetime\ndatetime.now().isoformat()",
    "class A:\n    def __init__(self):\n        self.x = brave.get(1)\nA()",
    "for k, v in d.items():\n    print(k, v)",
    "sorted(d.keys())",
    "sum(d.values()), 'a' in d.keys()",
    "try:\n    r = brave.search(q='x')\n    print(r['a'])\nexcept Exception as e:\n    print(f'failed: {e}')",
    "with open('x') as f:\n    f.read()",
    "import numpy",
    "__format__ = 'yml'\n{'a': 1}",
    "return 5",
    "proj.onetool / 'src'",
    "lambda *a, **k: (a, k)",
];

/// Programs that Monty rejects or runs incorrectly.
pub(in crate::choose) const REFUSED_BY_MONTY: &[&str] = &[
    "class A(B): pass",
    "class A(metaclass=M): pass",
    "class A:\n    def __len__(self): return 1",
    "class A:\n    def __add__(self, o): return 1",
    "class A:\n    def __lt__(self, o): return True",
    "class A:\n    def __getitem__(self, o): return True",
    "class A:\n    def __bool__(self): return False",
    "type X = int",
    "async def f():\n    async with a: pass",
    "async def f():\n    async for a in b: pass",
    "async def f():\n    return [x async for x in y]",
    "a @ b",
    "a @= b",
    "fmt % (1, 2)",
    "f'{x} %s' % 1",
    "import asyncio\nasyncio.gather(a, return_exceptions=True)",
    "input()",
    "max(d, key=d.get)",
    "list(map(brave.search, ['a']))",
    "sorted([1], key=lambda x: brave.rank(x))",
    "def g(x):\n    return brave.rank(x)\nsorted([1], key=g)",
    "def h(x):\n    return brave.rank(x)\ndef g(x):\n    return h(x)\nsorted([1], key=g)",
    "class A:\n    def __str__(self):\n        return brave.name()\nstr(A())",
    "from datetime import date\ndate.today()",
    "x.__dict__",
    "raise SystemExit(1)",
    "raise SystemExit",
];

/// Programs that Monty runs with a different answer from Python's.
pub(in crate::choose) const ANSWERED_DIFFERENTLY: &[&str] = &[
    "type(proj.home).__name__",
    "brave.search(qs=d.values())",
    "any(brave.check(x) for x in [1])",
    "from re import sub\nsub('a', r'\\n', 'a')",
    "from sys import version_info",
    "def f(): return 1\ntry:\n    f()\nexcept (KeyError, TypeError):\n    pass",
];

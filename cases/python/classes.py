class Dog:
    kind = "canine"

    def __init__(self, name):
        self.name = name

    def bark(self):
        return f"{self.name} says woof"


print(Dog("Rex").bark(), Dog.kind)
# %%
class Account:
    def __init__(self, balance=0):
        self.balance = balance

    def deposit(self, amount):
        self.balance += amount
        return self

    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError("insufficient funds")
        self.balance -= amount
        return self


a = Account().deposit(100).withdraw(30)
print(a.balance)
try:
    a.withdraw(1000)
except ValueError as error:
    print(error)
# %%
class Shape:
    def area(self):
        raise NotImplementedError


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side ** 2


class Circle(Shape):
    def __init__(self, r):
        self.r = r

    def area(self):
        return 3.14159 * self.r ** 2


print([round(s.area(), 2) for s in (Square(2), Circle(1))], isinstance(Square(1), Shape))
# %%
class Vector:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return Vector(self.x * k, self.y * k)

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)

    def __repr__(self):
        return f"Vector({self.x}, {self.y})"


print(Vector(1, 2) + Vector(3, 4) * 2, Vector(1, 1) == Vector(1, 1))
# %%
class Temperature:
    def __init__(self, celsius):
        self._celsius = celsius

    @property
    def fahrenheit(self):
        return self._celsius * 9 / 5 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        self._celsius = (value - 32) * 5 / 9


t = Temperature(100)
print(t.fahrenheit)
t.fahrenheit = 32
print(t._celsius)
# %%
class Stack:
    def __init__(self):
        self._items = []

    def push(self, item):
        self._items.append(item)

    def pop(self):
        return self._items.pop()

    def __len__(self):
        return len(self._items)

    def __bool__(self):
        return bool(self._items)


s = Stack()
s.push(1)
s.push(2)
print(s.pop(), len(s), bool(s))
# %%
class Node:
    def __init__(self, value, next=None):
        self.value, self.next = value, next


head = None
for v in (3, 2, 1):
    head = Node(v, head)
out = []
while head:
    out.append(head.value)
    head = head.next
print(out)
# %%
class Tree:
    def __init__(self):
        self.root = None

    def insert(self, value):
        def add(node):
            if node is None:
                return {"v": value, "l": None, "r": None}
            side = "l" if value < node["v"] else "r"
            node[side] = add(node[side])
            return node

        self.root = add(self.root)

    def walk(self):
        def visit(node):
            return visit(node["l"]) + [node["v"]] + visit(node["r"]) if node else []

        return visit(self.root)


t = Tree()
for v in [5, 2, 8, 1, 9]:
    t.insert(v)
print(t.walk())
# %%
from dataclasses import dataclass, field, asdict, replace


@dataclass
class Item:
    name: str
    price: float = 0.0
    tags: list = field(default_factory=list)


i = Item("pen", 1.5)
print(i, asdict(i), replace(i, price=2), i == Item("pen", 1.5))
# %%
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Version:
    major: int
    minor: int


print(sorted([Version(1, 2), Version(0, 9)]), hash(Version(1, 1)) == hash(Version(1, 1)))
try:
    Version(1, 1).major = 2
except Exception as error:
    print(type(error).__name__)
# %%
from enum import Enum, auto


class Color(Enum):
    RED = 1
    GREEN = auto()


print(Color.RED, Color.GREEN.value, Color(1).name, list(Color))
# %%
from enum import IntEnum


class Level(IntEnum):
    LOW = 1
    HIGH = 2


print(Level.HIGH > Level.LOW, Level.LOW + 1, int(Level.HIGH))
# %%
from abc import ABC, abstractmethod


class Base(ABC):
    @abstractmethod
    def run(self): ...


try:
    Base()
except TypeError:
    print("abstract")


class Real(Base):
    def run(self):
        return "ok"


print(Real().run())
# %%
class Meta(type):
    def __new__(cls, name, bases, namespace):
        namespace["tag"] = name.lower()
        return super().__new__(cls, name, bases, namespace)


class Thing(metaclass=Meta):
    pass


print(Thing.tag)
# %%
class Counter:
    instances = 0

    def __init__(self):
        Counter.instances += 1

    @classmethod
    def how_many(cls):
        return cls.instances

    @staticmethod
    def hello():
        return "hi"


Counter(), Counter()
print(Counter.how_many(), Counter.hello())
# %%
class A:
    def who(self):
        return "A"


class B(A):
    def who(self):
        return "B" + super().who()


class C(A):
    def who(self):
        return "C" + super().who()


class D(B, C):
    def who(self):
        return "D" + super().who()


print(D().who(), [k.__name__ for k in D.__mro__])
# %%
class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n + 1


print(list(Countdown(3)), [*Countdown(2)])
# %%
class Grid:
    def __init__(self):
        self.cells = {}

    def __getitem__(self, at):
        return self.cells.get(at, 0)

    def __setitem__(self, at, value):
        self.cells[at] = value

    def __contains__(self, at):
        return at in self.cells


g = Grid()
g[1, 2] = 5
print(g[1, 2], g[0, 0], (1, 2) in g)
# %%
class Timer:
    def __enter__(self):
        print("start")
        return self

    def __exit__(self, kind, error, trace):
        print("stop", kind.__name__ if kind else None)
        return True


with Timer():
    raise ValueError("swallowed")
# %%
class Multiplier:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return self.k * x


print(list(map(Multiplier(3), [1, 2])), callable(Multiplier(1)))
# %%
class Point:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


p = Point(1, 2)
try:
    p.z = 3
except AttributeError:
    print("no z")
print(p.x, hasattr(p, "y"), getattr(p, "w", "none"))
# %%
class Money:
    def __init__(self, amount):
        self.amount = amount

    def __str__(self):
        return f"${self.amount:.2f}"

    def __repr__(self):
        return f"Money({self.amount})"

    def __lt__(self, other):
        return self.amount < other.amount


print(Money(3), [Money(1)], f"{Money(2)}", min(Money(5), Money(4)))
# %%
class LRU:
    def __init__(self, size):
        from collections import OrderedDict

        self.size, self.data = size, OrderedDict()

    def get(self, key):
        if key not in self.data:
            return -1
        self.data.move_to_end(key)
        return self.data[key]

    def put(self, key, value):
        self.data[key] = value
        self.data.move_to_end(key)
        if len(self.data) > self.size:
            self.data.popitem(last=False)


c = LRU(2)
c.put(1, 1)
c.put(2, 2)
print(c.get(1))
c.put(3, 3)
print(c.get(2), c.get(3))
# %%
class Parent:
    def __init__(self, name):
        self.name = name


class Child(Parent):
    def __init__(self, name, age):
        super().__init__(name)
        self.age = age


c = Child("Kim", 4)
print(vars(c), issubclass(Child, Parent), type(c).__name__)
# %%
from typing import Generic, NamedTuple, Optional, TypeVar

T = TypeVar("T")


class Box(Generic[T]):
    def __init__(self, item: Optional[T] = None):
        self.item = item


class Row(NamedTuple):
    a: int
    b: str = "x"


print(Box[int](3).item, Row(1), Row(1, "y").b)

class A:
    def __init__(self, x): self.x = x
    def hi(self): return f"A{self.x}"
class B(A):
    def __init__(self, x, y):
        super().__init__(x)
        self.y = y
    def __repr__(self): return f"B({self.x}, {self.y})"
    def __add__(self, other): return B(self.x + other.x, self.y + other.y)
    def __len__(self): return 7
    def __lt__(self, other): return self.x < other.x
    @property
    def both(self): return self.x, self.y
    @classmethod
    def zero(cls): return cls(0, 0)
b = B(1, 2)
print(b.hi(), b + b, len(b), sorted([B(3, 1), B(1, 1)]), b.both, B.zero(), isinstance(b, A))
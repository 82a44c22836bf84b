class Base: pass
class Point(Base):
    def __init__(self, x):
        self.x = x
Point(1)
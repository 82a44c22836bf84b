class Point:
    def __init__(self, x):
        self.x = x
    def __str__(self):
        return f"point {self.x}"
__format__ = "raw"
Point(1)
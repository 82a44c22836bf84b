class Point:
    def __init__(self, x):
        self.x = x
Point(1)
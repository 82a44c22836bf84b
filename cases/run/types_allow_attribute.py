class Box:
    def __init__(self):
        self.path = 5
    def choose(self):
        self.path = 'app'
box = Box()
box.path = 7
box.choose()
ot.version()
file.info(path=box.path)['type']
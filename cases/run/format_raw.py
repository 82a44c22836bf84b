__format__ = "raw"
{'a': (1, None)}
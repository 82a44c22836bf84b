__format__ = 5
{'a': 1}
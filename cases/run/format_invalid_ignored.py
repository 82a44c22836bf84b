__format__ = "nope"
{'a': 1}
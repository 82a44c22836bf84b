__format__ = "yml"
{'a': [1, 2], 'b': 'x'}
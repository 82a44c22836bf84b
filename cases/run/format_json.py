__format__ = "json"
{'a': [1, 2]}
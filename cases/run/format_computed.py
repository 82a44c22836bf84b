__format__ = 'json' + '_h'
{'a': 1}
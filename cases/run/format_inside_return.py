__format__ = 'raw'
return {'a': 1}
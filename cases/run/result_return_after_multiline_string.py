s = '''a
  b'''
return s
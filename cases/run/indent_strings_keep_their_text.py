    s = '''one
      two'''
    s
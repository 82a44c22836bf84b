print('hello')
42
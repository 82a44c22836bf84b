name = 'app'
file.list(name, f'{1}')
file.list(name)
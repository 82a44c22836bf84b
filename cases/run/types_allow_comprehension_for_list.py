ids = ['a']
ot.version()
std.todo_write(todos=[{'id': name, 'content': 'x', 'status': 'pending'} for name in ids])['open']
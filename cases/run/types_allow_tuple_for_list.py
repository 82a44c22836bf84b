topics = ('a', 'b')
ot.version()
len(std.todo_write(todos=tuple({'id': topic, 'content': 'x', 'status': 'pending'} for topic in topics))['todos'])
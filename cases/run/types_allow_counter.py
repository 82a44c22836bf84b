offset = 0
for number in range(2):
    offset += 1
    text = file.read(path='app/src/main.py', offset=offset, limit=offset * 2)
    if 'hello' in text:
        break
    ot.version()
offset
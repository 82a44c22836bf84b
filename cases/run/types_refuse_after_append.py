results = []
results.append(ot.version())
count = len(results)
file.read(path='app/src/main.py', offset=count)
file.info(path=count)
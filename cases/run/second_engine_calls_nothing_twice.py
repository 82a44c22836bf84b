import json
demo.count()
n = demo.count()
flags = [n > 1, True]
json.dumps({"n": n, "sum": sum(flags)})
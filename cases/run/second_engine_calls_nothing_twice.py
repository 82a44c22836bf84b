import json
demo.count()
n = demo.count()
json.dumps({"n": n, "sum": sum([True, True])})
d = {"a": 1}
[d.keys(), d.values(), d.items()]
d = {"a": 1}
{"keys": d.keys(), "values": d.values(), "items": d.items()}
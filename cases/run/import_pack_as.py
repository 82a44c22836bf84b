import json, brave as b
json.dumps(b.search("x"))
import json
data = json.loads('{"path": "app", "n": 1}')
ot.version()
file.info(path=data['path'])['type']
import json
try:
    json.loads("{bad")
except json.JSONDecodeError as error:
    print(error.lineno, error.colno, error.msg)
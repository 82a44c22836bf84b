```python
__format__ = "json_h"
{"first": ws(query="x")["query"]}
```
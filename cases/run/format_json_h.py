__format__ = "json_h"
{'a': [1, 2]}
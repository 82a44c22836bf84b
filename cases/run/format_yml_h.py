__format__ = "yml_h"
{'a': [1, 2], 'b': 'x'}
__format__ = "yml_h"
'a: b'
import os
list(os.walk("nope"))

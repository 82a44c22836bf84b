import os
list(os.walk("/etc"))

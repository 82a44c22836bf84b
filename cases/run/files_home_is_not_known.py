import os
os.path.exists(os.path.expanduser("~/data.csv"))

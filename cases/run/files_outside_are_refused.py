import os
os.path.exists("/etc/passwd")
import sys
print(sys.platform, sys.version_info >= (3, 10))
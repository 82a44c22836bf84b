import os

os.chmod("notes.txt", 0o755)

p = proj.onetool
[type(p).__name__, type(p / "src").__name__, isinstance(p, __import__("pathlib").Path)]
import re
print(re.split(r"(\d)", "a1b2c"), re.sub(r"\.", r"\n", "a.b"), bool(re.match(r"^\d+$", "5\n")), re.sub(r"\b(\w)", lambda m: m.group(1).upper(), "big world"))
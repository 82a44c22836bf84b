import tempfile, os
with tempfile.TemporaryDirectory() as d:
    p = os.path.join(d, "a.txt")
    with open(p, "w") as f:
        f.write("text")
    r = open(p).read()
[r, os.path.exists(p)]
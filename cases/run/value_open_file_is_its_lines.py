with open("lines.txt", "w") as f:
    f.write("one\ntwo\n")
open("lines.txt")

# Compiles the host program, which is the first argument, and becomes it. The other arguments are its own.

import os
import sys

library = os.environ.get("ONETOOL_LIBRARY")
if library:
    sys.path.append(library)
source = sys.argv.pop(1)
if len(sys.argv) == 2:
    import marshal

    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)  # so that it ends with whoever reads
        with os.fdopen(writing, "wb") as out:
            out.write(marshal.dumps(compile(source, "<host>", "exec")))
        os._exit(0)
    os.close(writing)
    # Meanwhile, what the host program begins with. Modules that keep `open` for themselves wait for its own.
    for name in ("ast", "ctypes", "pathlib", "socket"):
        __import__(name)
    with os.fdopen(reading, "rb") as data:
        code = marshal.loads(data.read())
    os.waitpid(child, 0)
    del marshal, data, name
else:
    code = compile(source, "<host>", "exec")
del source, library, os
exec(code)

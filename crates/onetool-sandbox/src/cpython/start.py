# Compiles the host program, which is the first argument, and becomes it. The other arguments are its own.

import sys

source = sys.argv.pop(1)
if len(sys.argv) == 2:
    import marshal
    import os

    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)  # so that it ends with whoever reads
        with os.fdopen(writing, "wb") as out:
            out.write(marshal.dumps(compile(source, "<host>", "exec")))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as data:
        code = marshal.loads(data.read())
    os.waitpid(child, 0)
    del marshal, os, data
else:
    code = compile(source, "<host>", "exec")
del source
exec(code)

# Becomes the host program. The first argument is the descriptor of a file with its compiled code, if there is one; the
# second is its source: the text, or the number of a descriptor. The other arguments are its own. Without any, nothing
# runs, and this process writes the compiled code.

import gc
import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER as magic

gc.disable()  # nothing is garbage yet
library = os.environ.get("ONETOOL_LIBRARY")
if library:
    sys.path.append(library)


def whole(descriptor):
    with open(int(descriptor), "rb", 0) as file:
        return file.read()


def compiled(source):
    return compile(whole(source) if source.isdigit() else source, "<host>", "exec")


def compiled_apart(source):
    """Compiles in a child: the compiler's memory never gets into the pages that all children of a zygote share."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)  # so that the child ends when its reader does
        with open(writing, "wb") as out:
            out.write(marshal.dumps(compiled(source)))
        os._exit(0)
    os.close(writing)
    code = marshal.loads(whole(reading))
    os.waitpid(child, 0)
    return code


def kept(descriptor):
    """Returns the code compiled earlier by an interpreter like this one, or None."""
    data = whole(descriptor)
    try:
        return marshal.loads(memoryview(data)[len(magic) :]) if data.startswith(magic) else None
    except (EOFError, TypeError, ValueError):
        return None


code, source = sys.argv.pop(1), sys.argv.pop(1)
if len(sys.argv) == 1:
    with open(1, "wb") as out:
        out.write(magic + marshal.dumps(compiled(source)))
    os._exit(0)
code = kept(code) if code else None
if code is None:
    code = (compiled_apart if len(sys.argv) == 2 else compiled)(source)
elif source.isdigit():
    os.close(int(source))
del source, library, magic, whole, compiled, compiled_apart, kept, gc, marshal, os
exec(code)

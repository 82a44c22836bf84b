"""Runs a command on a terminal: `terminal_steps.py '[["question", "answer"], …]' program argument…`.

Waits for each text, then types its answer; `^C` is the interrupt key. Prints the terminal's output, and exits with the
command's exit code."""

import json
import os
import pty
import select
import sys
import time

steps, command = json.loads(sys.argv[1]), sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
shown, seen, deadline = b"", 0, time.monotonic() + 110
while True:
    ready, _, _ = select.select([terminal], [], [], 1)
    if time.monotonic() > deadline:
        os.kill(child, 9)
        print(shown.decode(errors="replace"))
        sys.exit("nothing more happened; waiting for %r" % steps[:1])
    if ready:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            piece = b""
        if not piece:
            break
        shown += piece
    while steps and steps[0][0].encode() in shown[seen:]:
        text, answer = steps.pop(0)
        seen = shown.index(text.encode(), seen) + len(text.encode())
        os.write(terminal, b"\x03" if answer == "^C" else answer.encode())
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.stdout.write(shown.decode(errors="replace").replace("\r\n", "\n"))
sys.exit(status if status >= 0 else 128 - status)

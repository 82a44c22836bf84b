"""Runs a command in a separate terminal, answers the first question with a line, and prints everything that was shown.

usage: terminal.py ANSWER PROGRAM [ARGUMENT ...]
"""

import os
import pty
import select
import sys
import time

answer, command = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
shown = b""
questions = 0
until = time.monotonic() + 120
while time.monotonic() < until:
    if not select.select([terminal], [], [], 1)[0]:
        continue
    try:
        data = os.read(terminal, 65536)
    except OSError:
        break
    if not data:
        break
    shown += data
    if shown.count(b"[y/N] ") > questions:
        questions += 1
        os.write(terminal, answer.encode() + b"\n")
_, status = os.waitpid(pid, 0)
sys.stdout.buffer.write(shown)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(status))

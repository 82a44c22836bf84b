"""Types a line and a tab in an interactive shell, and waits until the shell shows the whole line.

usage: complete_line.py bash|zsh|fish TYPED WHOLE

The shell has loaded `onetool completions` first. Prints the terminal's output; fails if the line does not appear."""

import os
import pty
import re
import select
import sys
import time

PATIENCE = 120
# A dumb terminal has no colours and cursor movements; fish requires a capable one.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "dumb", "PS1='$ '; source <(onetool completions bash); echo rea''dy"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "dumb",
        "PS1='$ '; autoload -Uz compinit; compinit -u -D; source <(onetool completions zsh); echo rea''dy",
    ),
    "fish": (["fish", "--no-config", "-i"], "xterm", "onetool completions fish | source; echo rea''dy"),
}

shell, typed, whole = sys.argv[1:]
command, terminal_kind, setup = SHELLS[shell]
child, terminal = pty.fork()
if child == 0:
    os.environ.update(TERM=terminal_kind, ZDOTDIR=os.environ["HOME"], INPUTRC="/dev/null")
    os.execvp(command[0], command)

shown = b""
deadline = time.monotonic() + PATIENCE


def plain() -> str:
    text = re.sub(r"\x1b(\[[0-9;?>=]*[A-Za-z]|[=>()][AB0]?|\][^\x07\x1b]*(\x07|\x1b\\\\))", "", shown.decode(errors="replace"))
    return re.sub(r"[\r\x08]", "", text)


def wait_for(what: str) -> None:
    global shown
    while what not in plain():
        if time.monotonic() > deadline:
            print(f"{what!r} did not come; the terminal showed {shown!r}")
            os.kill(child, 9)
            sys.exit(1)
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            piece = b""
        if not piece:
            sys.exit(f"the shell ended; the terminal showed {shown!r}")
        shown += piece
        # fish queries its terminal's capabilities, and waits for the answer.
        if b"\x1b[c" in piece or b"\x1b[0c" in piece:
            os.write(terminal, b"\x1b[?1;2c")


os.write(terminal, setup.encode() + b"\n")
wait_for("ready")
shown = b""
os.write(terminal, typed.encode() + b"\t")
wait_for(whole)
os.kill(child, 9)

import os
import signal

for send in (lambda: signal.alarm(1), lambda: os.kill(1, 9)):
    try:
        send()
    except PermissionError as error:
        print(str(error).splitlines()[0])

"""Become a program on a signal: `python launch.py GATE TOLD PROGRAM ARGUMENTS…`, started by `commands.process`.

It waits for one byte at GATE. Its starter records which process this is before it writes that byte; if the starter
dies first, the pipe closes and nothing is started. An error that prevents the start goes to TOLD, as an errno.
"""

import os
import signal
import sys

NOT_STARTED = 127

if __name__ == "__main__":
    gate, told = int(sys.argv[1]), int(sys.argv[2])
    if os.read(gate, 1):
        os.close(gate)
        os.set_inheritable(told, False)  # noqa: FBT003 - it closes when the program starts, and shows that it did
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would inherit that
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606 - no shell is the point
        except OSError as error:
            os.write(told, str(error.errno).encode())
    os._exit(NOT_STARTED)

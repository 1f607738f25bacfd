"""Become a command, once told: `python launch.py GATE TOLD PROGRAM ARGUMENTS…`, started by `wings.commands.process`.

It waits for one byte at GATE. Its starter records which process this is before that byte comes; if the writer
dies first, the pipe closes and nothing is started. What keeps the program from starting is told at TOLD, as an errno.
"""

import os
import signal
import sys

NOT_STARTED = 127

if __name__ == "__main__":
    gate, told = int(sys.argv[1]), int(sys.argv[2])
    if os.read(gate, 1):
        os.close(gate)
        os.set_inheritable(told, False)  # noqa: FBT003 - it closes when the program starts, which tells that it did
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would inherit that
            signal.signal(number, signal.SIG_DFL)
        try:
            os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606 - no shell is the point
        except OSError as error:
            os.write(told, str(error.errno).encode())
    os._exit(NOT_STARTED)

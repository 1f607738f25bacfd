"""A worker process that runs the commands of the settings file in its directory: `python deploying.py URL`."""

from __future__ import annotations

import sys

from standfast import Standfast
from standfast.worker import worker as worker_module

if __name__ == "__main__":
    worker_module.POLL_EVERY = 0.2
    Standfast(sys.argv[1]).run_worker()

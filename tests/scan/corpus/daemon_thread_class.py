"""A class of threads."""
import threading
from pathlib import Path


class Writer(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)

    def run(self):  # expect: daemon-thread-io
        Path("state").write_text("done")

"""One known error, or only closing."""
import contextlib
from pathlib import Path


def remove():
    with contextlib.suppress(FileNotFoundError):
        Path("state").unlink()


def leave(connection):
    with contextlib.suppress(Exception):
        connection.close()

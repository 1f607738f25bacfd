"""Programs without a line of async code: each is run by a test, and told its store."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import time
import traceback

import msgspec

from standfast import Job, Standfast


class Mail(msgspec.Struct):
    """A typed payload."""

    to: str


def waiting(sf: Standfast) -> None:
    """Wait for what no worker runs, until interrupted."""
    receipt = sf.sync.enqueue("nobody")
    threading.Thread(target=interrupt, args=(threading.get_ident(),), daemon=True).start()
    sf.sync.wait(receipt.id, 60)


def interrupt(thread: int) -> None:
    """Press Control-C once a thread waits for its answer."""
    frames = sys._current_frames  # noqa: SLF001 - there is no other way to see what a thread does
    while "result" not in [frame.name for frame in traceback.extract_stack(frames()[thread])]:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)


def forking(sf: Standfast) -> None:
    """Use the same object in a parent and its child."""
    print(sf.sync.run("mail", {"to": "parent"})["result"], flush=True)  # noqa: T201
    child = os.fork()
    if child == 0:
        print(sf.sync.run("mail", {"to": "child"})["result"], flush=True)  # noqa: T201
        os._exit(0)
    os.waitpid(child, 0)
    print(sf.sync.run("mail", {"to": "parent again"})["result"], flush=True)  # noqa: T201


def leaving(sf: Standfast) -> None:
    """Enqueue and look from exit handlers, before and after the loop of plain calls has ended, and from a thread."""

    def at_exit(when: str) -> None:
        receipt = sf.sync.enqueue("mail", {"to": when})
        print(sf.sync.jobs(q=receipt.id)[0].state, when, flush=True)  # noqa: T201

    atexit.register(at_exit, "last")
    sf.sync.stats()  # from here on there is a loop that has an exit handler, too
    atexit.register(at_exit, "first")
    threading.Thread(target=at_exit, args=("thread",)).start()


def serving(sf: Standfast) -> None:
    """Run a worker."""
    receipt = sf.sync.enqueue("mail", {"to": "ann"})
    with sf.sync.worker():
        print(sf.sync.wait(receipt.id, 30).result, flush=True)  # noqa: T201
    sf.sync.close()


def main() -> None:
    """Run one of them."""
    # In development mode asyncio warns of each step that took 100 ms, which on a busy machine any step may.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    sf = Standfast(sys.argv[2])

    @sf.handler("mail")
    async def send(job: Job[Mail]) -> str:
        return f"sent to {job.input.to}"

    globals()[sys.argv[1]](sf)


if __name__ == "__main__":
    main()

"""The receiver of HTTP requests is down: requests wait on disk, and when it is back, each is delivered once.

Run it: python examples/http_outage.py [DATABASE]
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

from standfast import JobView, Receipt, Standfast, exponential

sf = Standfast(sys.argv[1] if len(sys.argv) > 1 else ":memory:")
sf.queue(
    "feedback",
    attempts=10,
    backoff=exponential(base=0.2, cap=1),
    breaker={"open_for": 0.5},  # while the receiver is down, one request at a time probes whether it is back
    destinations=["127.0.0.1"],
)

received: list[str] = []
"""The key of every request that reached the receiver."""


class Receiving(BaseHTTPRequestHandler):
    """Records a request, then answers."""

    def do_POST(self) -> None:
        """Take one request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        received.append(self.headers["Idempotency-Key"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Say nothing."""


@contextmanager
def running(receiver: ThreadingHTTPServer) -> Iterator[None]:
    """Let the receiver answer; before that, connections are refused."""
    receiver.server_activate()
    threading.Thread(target=receiver.serve_forever).start()
    try:
        yield
    finally:
        receiver.shutdown()


async def thank(url: str, outcome: str) -> Receipt:
    """Take a user's feedback. It is on disk when this returns, so "thank you" is true whatever the receiver does."""
    # This line was client.post(...): while the receiver was down, the feedback was gone.
    return await sf.enqueue_http("feedback", "POST", url, body={"outcome": outcome}, idempotency_key=f"fb_{uuid4()}")


async def have_failed(receipts: list[Receipt]) -> None:
    """Wait until each of these requests has failed once and waits for its retry."""
    untried = {receipt.id for receipt in receipts}
    async for notice in sf.subscribe(["retry"], queue="feedback", after=0):
        untried.discard(notice.job)
        if not untried:
            return


async def outage(receiver: ThreadingHTTPServer) -> list[JobView]:
    """Accept feedback while the receiver is down, then bring it back; return the finished jobs."""
    url = f"http://127.0.0.1:{receiver.server_port}/feedback"
    async with sf, sf.worker():
        receipts = [await thank(url, outcome) for outcome in ("good", "bad", "slow", "great", "odd")]
        print(f"the receiver is down: {len(receipts)} requests are accepted")
        await have_failed(receipts)
        print(f"each was tried in vain and waits; {len(received)} arrived")
        with running(receiver):
            print("the receiver is back")
            return [await sf.wait(receipt.id, timeout=10) for receipt in receipts]


def main() -> None:
    """Simulate an outage, and account for every request."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiving, bind_and_activate=False) as receiver:
        receiver.server_bind()
        jobs = asyncio.run(outage(receiver))
    completed = sum(job.state == "completed" for job in jobs)
    lost = {job.idempotency_key for job in jobs} - set(received)
    doubled = len(received) - len(set(received))
    print(f"accepted {len(jobs)}, completed {completed}, lost {len(lost)}, delivered twice {doubled}")
    print(f"the most attempts one took: {max(job.attempts for job in jobs)}")


if __name__ == "__main__":
    main()

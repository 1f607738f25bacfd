"""A producer and a worker on each of several hosts, and the books of what they were told and did.

What was acknowledged is in files of the producers', what was done in the file of a receiver that writes each request
down before it answers. Neither is the product's.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from standfast import Receipt, Standfast
from standfast.testing.nursery import nursery
from tests.faults import elsewhere
from tests.faults.hosts import Hosts
from tests.faults.nursery import Child, Nursery, report, reported, until, until_none_is_left
from tests.postgres import connect, fresh_schema, in_schema
from tests.receiver import Receiver

RECOVERY = 10.0
DEADLINE = 5.0
SLACK = 0.7
"""Seconds a busy machine may add."""


class Company:
    """A producer and a worker on each host, and the receiver of what they send beside the server."""

    def __init__(self, hosts: Hosts, children: Nursery, place: Path, *, lease: float, pause: float) -> None:
        self.hosts = hosts
        self._children = children
        self._place = place
        self._lease = lease
        self._schema = fresh_schema()
        self._names = iter(range(1000))
        self._receiver = Receiver(place / "received", host=hosts.address)
        self._pause = pause
        self._producers: dict[int, Child] = {}
        self.workers: dict[int, tuple[str, Child]] = {}

    def open(self, count: int) -> None:
        """Let so many hosts begin, and wait until all work."""
        with self.hosts.beside_the_server():
            self._receiver.start()
        for host in range(count):
            self.hire(host)
            given = (self._url(host), self._place, f"producer-{host}", self._pause)
            self._producers[host] = self.hosts.spawn(self._children, host, elsewhere.produce, *given)
        self.works()

    def close(self) -> None:
        """Take the receiver away; the nursery has the rest."""
        self._receiver.stop()

    def hire(self, host: int) -> None:
        """Start a worker on a host."""
        name = f"worker-{host}-{next(self._names)}"
        receiver = f"http://{self._receiver.host}:{self._receiver.port}"
        given = (self._url(host), self._place, name, receiver, self._lease)
        self.workers[host] = name, self.hosts.spawn(self._children, host, elsewhere.work, *given)

    def _url(self, host: int) -> str:
        return in_schema(self.hosts.url(host), self._schema)

    def hand_in(self, key: str, **asks: Any) -> None:
        """Hand in a job of our own, that asks something of the receiver; nobody else reaches the server this way."""
        report(self._place / "offered", key=key)
        receipt = asyncio.run(self._handed_in(key, {"key": key, "asks": urlencode(asks)}))
        line: dict[str, Any] = {"key": key, "id": receipt.id, "outcome": receipt.outcome, "by": "ourselves"}
        report(self._place / "accepted", at=time.time(), took=0.0, **line)

    async def _handed_in(self, key: str, payload: dict[str, str]) -> Receipt:
        async with Standfast(in_schema(self.hosts.server.url, self._schema)) as sf:
            return await sf.enqueue("post", payload, idempotency_key=key)

    # --- what can be seen from outside

    def sent(self) -> list[dict[str, Any]]:
        """Give what the receiver was sent: by whom, for which job, under which token, and when.

        Of a request that was cut off there is nothing to act on.
        """
        whole = [
            seen for seen in self._receiver.requests() if len(seen["body"]) == int(seen["headers"]["content-length"])
        ]
        return [{**json.loads(seen["body"]), "at": seen["at"]} for seen in whole]

    def tokens(self, key: str) -> list[int]:
        """Give the tokens under which a job was sent."""
        return [request["token"] for request in self.sent() if request["key"] == key]

    def works(self, but: int | None = None) -> None:
        """See that every host accepts jobs, and does them, within the time a recovery may take; but for one."""
        since = time.time()
        workers = {name for host, (name, _) in self.workers.items() if host != but}
        wanted = workers | {f"producer-{host}" for host in self._producers if host != but}

        def seen() -> bool:
            told = [line for line in self.accepted() if line["outcome"] == "accepted"]
            return wanted <= {line["by"] for line in [*told, *self.sent()] if line["at"] > since}

        until(seen, within=RECOVERY)

    def accepted(self) -> list[dict[str, Any]]:
        """Give what producers were told."""
        return reported(self._place / "accepted")

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        """Read the tables beside the product, without any network."""
        with connect(in_schema(self.hosts.server.url, self._schema)) as connection:
            return connection.execute(question.encode()).fetchall()

    # --- the end

    def leaves(self) -> None:
        """Let the producers go, and the workers once everything is done."""
        (self._place / "stop").touch()
        assert {producer.wait(60.0) for producer in self._producers.values()} == {0}
        until_none_is_left(lambda: self.ask("SELECT count(*) FROM job WHERE state <> 'completed'")[0][0])
        for _, worker in self.workers.values():
            worker.kill()

    def balance(self) -> Counter[str]:
        """Balance what was acknowledged and what was received with what the store says; count what there was."""
        rows = self.ask("SELECT b.idempotency_key, b.id, j.state, j.attempts FROM body AS b JOIN job AS j ON j.n = b.n")
        kept = {key: job_id for key, job_id, *_ in rows}
        assert len(kept) == len(rows), "a row is doubled"
        acknowledged = {line["key"]: line["id"] for line in self.accepted()}
        assert {key: kept.get(key) for key in acknowledged} == acknowledged, "something acknowledged is lost"
        assert kept.keys() <= {line["key"] for line in reported(self._place / "offered")}
        assert {state for _, _, state, _ in rows} == {"completed"}
        requests = Counter(request["key"] for request in self.sent())
        assert requests.keys() == kept.keys(), "something completed was never sent, or was sent and is not there"
        tokens = Counter((request["key"], request["token"]) for request in self.sent())
        assert tokens.most_common(1)[0][1] == 1, "an attempt sent twice"
        recorded = self._possible_duplicates()
        hidden = {key: count for key, count in requests.items() if count - 1 > recorded[key]}
        assert hidden == {}, "an effect was doubled, and its history does not say that it may have been"
        slow = [line for line in self.accepted() if line["took"] > DEADLINE + SLACK]
        assert slow == []
        outcomes = Counter(line["outcome"] for line in self.accepted())
        return outcomes + Counter(repeated=sum(count > 1 for count in requests.values()), recorded=len(recorded))

    def _possible_duplicates(self) -> Counter[str]:
        lines = self.ask("SELECT b.idempotency_key, h.entry FROM history AS h JOIN body AS b ON b.n = h.n")
        return Counter(key for key, entry in lines if json.loads(entry).get("possible_duplicate"))


@contextmanager
def company(hosts: Hosts, place: Path, **given: float) -> Iterator[Company]:
    """Found one; whatever happens, nobody is left of it."""
    with nursery("tests.faults.elsewhere") as children:
        made = Company(hosts, children, place, **given)
        try:
            yield made
        finally:
            made.close()

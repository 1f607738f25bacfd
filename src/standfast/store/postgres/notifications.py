"""Tell other processes that there is work, and hear it from them, through NOTIFY and LISTEN.

A notification is only a hint: one that is lost, or that no pooler lets through, costs latency and never a job, because
workers also look by themselves. The first goes out with the commit that it tells of. Those that follow are gathered for
a moment and sent by a thread, because each NOTIFY makes every commit with one wait for the others.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable

import msgspec
import psycopg

from standfast.concurrency.threads import try_start
from standfast.errors import WrongAddress
from standfast.store.hints import Hint
from standfast.store.postgres.address import Address
from standfast.store.postgres.connection import Connection

log = logging.getLogger("standfast.store")

GATHERED = 0.01
"""Seconds between two notifications of one process."""
NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, %s)"
"""A hint need not be on disk before it is heard: that would double the syncs of a busy producer."""
LARGEST = 7000
"""Bytes a notification may have; PostgreSQL takes a few more."""
PAUSE_AFTER_TROUBLE = 1.0
LISTENS_FOR = 0.5
ASKS_EVERY = 10.0
LONGEST_NAME = 63
NEVER = float("-inf")


class Message(msgspec.Struct):
    """A hint and its sender: a process ignores its own."""

    by: str
    work: Hint


class ServerNotifier:
    """Rings for every process that listens on the same store, and hears them."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._name = uuid.uuid4().hex
        self._waiting: Hint = {}
        self._rang = NEVER
        self._news = threading.Condition()
        self._closed = False
        self._paused = False
        self._threads: list[threading.Thread] = []
        self._listener: Callable[[Hint], None] | None = None

    def notify(self, hint: Hint) -> None:
        """Tell the others soon; the first to ring starts the thread that does it."""
        with self._news:
            for queue, seconds in hint.items():
                self._waiting[queue] = min(seconds, self._waiting.get(queue, seconds))
            self._start("ringer", self._ring)
            self._news.notify_all()

    def message_now(self, hint: Hint) -> str | None:
        """Give the message that tells a hint, for a writer that commits now; None if hints must be gathered."""
        with self._news:
            if self._waiting or self._paused or self._closed or time.monotonic() - self._rang < GATHERED:
                return None
            found = messages(hint, self._name)
            if len(found) != 1:
                return None
            self._rang = time.monotonic()
            return found[0]

    def listen(self, listener: Callable[[Hint], None]) -> None:
        """Start hearing the others, on a thread of its own."""
        with self._news:
            self._listener = listener
            self._start("bell", self._listen)

    def _start(self, name: str, target: Callable[[], None]) -> None:
        if all(thread.name != f"standfast-{name}" for thread in self._threads):
            thread = threading.Thread(target=target, name=f"standfast-{name}", daemon=True)
            if try_start(thread):  # else the others look by themselves, and later
                self._threads.append(thread)

    # --- ringing

    def _ring(self) -> None:
        connection: Connection | None = None
        while hint := self._gathered():
            try:
                connection = connection or Connection.connect_to(self._address.server)
                self._rang = time.monotonic()
                for message in messages(hint, self._name):
                    connection.execute(NOTIFY, (channel(self._address), message))
            except (psycopg.Error, WrongAddress) as error:
                log.debug("a hint was not given: %s", error)
                if connection is not None:
                    connection.close()
                connection = None
            time.sleep(GATHERED)
        if connection is not None:
            connection.close()

    def _gathered(self) -> Hint:
        """Wait for hints, and take them all; none when the bell is closed."""
        with self._news:
            self._news.wait_for(lambda: self._closed or (self._waiting and not self._paused))
            hint, self._waiting = self._waiting, {}
            return {} if self._closed else hint

    # --- hearing

    def _listen(self) -> None:
        while not self._closed:
            try:
                with Connection.connect_to(self._address.listen) as connection:
                    connection.execute(f"LISTEN {channel(self._address)}")
                    self._hear(connection)
            except (psycopg.Error, WrongAddress) as error:
                log.debug("hints are not heard for now: %s", error)
            with self._news:
                self._news.wait_for(lambda: self._closed, PAUSE_AFTER_TROUBLE)

    def _hear(self, connection: Connection) -> None:
        """Hear what comes. In silence, ask now and then whether anybody is still there."""
        since = time.monotonic()
        while not (self._closed or self._paused):
            for notification in connection.notifies(timeout=LISTENS_FOR):
                self._deliver(notification.payload)
            if time.monotonic() - since > ASKS_EVERY:
                connection.execute("SELECT 1")
                since = time.monotonic()

    def _deliver(self, payload: str) -> None:
        try:
            message = msgspec.json.decode(payload, type=Message)
        except msgspec.DecodeError:
            return  # not one of ours
        if message.by != self._name and self._listener is not None:
            self._listener(message.work)

    # --- life

    def pause(self) -> None:
        """Connect no more until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Go on."""
        with self._news:
            self._paused = False
            self._news.notify_all()

    def close(self) -> None:
        """Stop hearing and ringing."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        for thread in self._threads:
            thread.join(timeout=1)


def channel(address: Address) -> str:
    """Name the channel: there is one for each schema. A longer name would be refused, and two may well share one."""
    return f"standfast_{address.schema}"[:LONGEST_NAME]


def messages(hint: Hint, by: str = "") -> list[str]:
    """Encode a hint as notifications; one without a sender is heard by all."""
    return [msgspec.json.encode(Message(by, part)).decode() for part in _parts(hint)] if hint else []


def _parts(hint: Hint) -> list[Hint]:
    """Cut a hint into parts that one notification can carry."""
    parts: list[Hint] = [{}]
    size = 0
    for queue, seconds in hint.items():
        size += len(queue.encode()) + 40
        if size > LARGEST:
            parts.append({})
            size = len(queue.encode()) + 40
        parts[-1][queue] = seconds
    return parts

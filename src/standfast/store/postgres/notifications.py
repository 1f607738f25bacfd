"""Tell other processes that there is work, and learn it from them, through NOTIFY and LISTEN.

A notification is only a hint. One that is lost, or that a pooler does not let through, costs latency, never a job,
because workers also poll. The first goes out with the commit that it is about. Those that follow are gathered for a
moment and sent by a thread, because each NOTIFY makes every commit that has one wait for the others.
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
"""A hint need not be on disk before it is received: that would double the syncs of a busy producer."""
LARGEST = 7000
"""The most bytes in a notification; PostgreSQL allows a few more."""
PAUSE_AFTER_TROUBLE = 1.0
LISTENS_FOR = 0.5
ASKS_EVERY = 10.0
LONGEST_NAME = 63
NEVER = float("-inf")


class Message(msgspec.Struct):
    """A hint and its sender: a process ignores its own hints."""

    by: str
    work: Hint


class ServerNotifier:
    """Notifies every process that listens on the same store, and listens to them."""

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
        """Notify other processes soon; the first call starts the thread that does so."""
        with self._news:
            for queue, seconds in hint.items():
                self._waiting[queue] = min(seconds, self._waiting.get(queue, seconds))
            self._start("ringer", self._ring)
            self._news.notify_all()

    def message_now(self, hint: Hint) -> str | None:
        """Return the message for a hint, for a writer that commits now; None if hints must be gathered."""
        with self._news:
            if self._waiting or self._paused or self._closed or time.monotonic() - self._rang < GATHERED:
                return None
            found = messages(hint, self._name)
            if len(found) != 1:
                return None
            self._rang = time.monotonic()
            return found[0]

    def listen(self, listener: Callable[[Hint], None]) -> None:
        """Start to listen to other processes, on a separate thread."""
        with self._news:
            self._listener = listener
            self._start("bell", self._listen)

    def _start(self, name: str, target: Callable[[], None]) -> None:
        if all(thread.name != f"standfast-{name}" for thread in self._threads):
            thread = threading.Thread(target=target, name=f"standfast-{name}", daemon=True)
            if try_start(thread):  # else the other processes find the work by polling, later
                self._threads.append(thread)

    # --- notifying

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
        """Wait for hints, and take them all; return none if the notifier is closed."""
        with self._news:
            self._news.wait_for(lambda: self._closed or (self._waiting and not self._paused))
            hint, self._waiting = self._waiting, {}
            return {} if self._closed else hint

    # --- listening

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
        """Receive notifications. In silence, check now and then that the server is still there."""
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
            return  # not sent by standfast
        if message.by != self._name and self._listener is not None:
            self._listener(message.work)

    # --- life

    def pause(self) -> None:
        """Make no more connections until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Continue."""
        with self._news:
            self._paused = False
            self._news.notify_all()

    def close(self) -> None:
        """Stop listening and notifying."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        for thread in self._threads:
            thread.join(timeout=1)


def channel(address: Address) -> str:
    """Return the channel of a schema, cut to the length that is not refused: two schemas may well share one."""
    return f"standfast_{address.schema}"[:LONGEST_NAME]


def messages(hint: Hint, by: str = "") -> list[str]:
    """Encode a hint as notifications; all processes take one without a sender."""
    return [msgspec.json.encode(Message(by, part)).decode() for part in _parts(hint)] if hint else []


def _parts(hint: Hint) -> list[Hint]:
    """Split a hint into parts that fit into one notification each."""
    parts: list[Hint] = [{}]
    size = 0
    for queue, seconds in hint.items():
        size += len(queue.encode()) + 40
        if size > LARGEST:
            parts.append({})
            size = len(queue.encode()) + 40
        parts[-1][queue] = seconds
    return parts

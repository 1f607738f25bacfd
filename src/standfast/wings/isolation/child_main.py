"""The child process: `python -m standfast.wings.isolation.child_main FD`, started by `child_process`.

The main thread runs one handler at a time; a second thread reads messages from the worker. When the worker is gone, the
whole process group ends with it: nothing must run beside the job's next attempt.
"""

from __future__ import annotations

import importlib
import logging
import os
import queue
import runpy
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any, cast

from standfast.concurrency.guarded import call_guarded
from standfast.errors import StoreUnavailable
from standfast.failure import classify
from standfast.failure.error_place import with_place
from standfast.failure.traceback_text import traceback_of
from standfast.job import Claim, LedgerNote
from standfast.outcome import Cancel, Failed, Snooze, Succeeded
from standfast.printable import printable
from standfast.spine import payload
from standfast.spine.claimed_job import SESSION
from standfast.spine.run import call_plain, judge_return
from standfast.wings.effects.handler_job import Job, JobServices
from standfast.wings.effects.ledger import Ledger
from standfast.wings.isolation import isolated_handler
from standfast.wings.isolation.isolated_handler import IsolatedHandler
from standfast.wings.isolation.messages import (
    LENGTH,
    Begin,
    Ended,
    Entered,
    Fetched,
    FetchReceipt,
    FetchResult,
    LogLine,
    Note,
    Noted,
    Place,
    Prepare,
    Prepared,
    Report,
    Stop,
    ToParent,
    framed,
    read_in_child,
)
from standfast.wings.isolation.raised_exception import MAIN, pickled
from standfast.wings.progress.rules import checked

LONGEST_TRACE = 20_000


class Wire:
    """The socket to the worker."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._sending = threading.Lock()
        self._asking = threading.Lock()
        self.work: queue.SimpleQueue[Prepare | Begin] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Noted | Fetched] = queue.SimpleQueue()
        self.job: Job | None = None

    def send(self, message: ToParent) -> None:
        """Send a message; any thread may call this."""
        with self._sending:
            self._socket.sendall(framed(message))

    def ask(self, question: Note | FetchReceipt | FetchResult) -> Any:
        """Ask the worker, and wait for its answer; one question at a time."""
        with self._asking:
            self.send(question)
            return self._answers.get()

    def read_all(self) -> None:
        """Read until the worker is gone; then kill everything that the handler started, and this process."""
        while (message := self._read()) is not None:
            if isinstance(message, Stop):
                if self.job is not None:
                    self.job.cancelled = True
            elif isinstance(message, Noted | Fetched):
                self._answers.put(message)
            else:
                self.work.put(message)
        os.killpg(0, signal.SIGKILL)

    def _read(self) -> Any:
        header = self._exactly(LENGTH.size)
        body = None if header is None else self._exactly(LENGTH.unpack(header)[0])
        return None if body is None else read_in_child(body)

    def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            try:
                chunk = self._socket.recv(size - len(parts))
            except OSError:
                return None
            if not chunk:
                return None
            parts += chunk
        return bytes(parts)


class Asked:
    """A pending answer of the worker, in the form in which the ledger waits for one in a plain function."""

    def __init__(self, wire: Wire, question: Note | FetchReceipt | FetchResult) -> None:
        self._wire = wire
        self._question = question

    def result(self) -> Any:
        """Ask, and wait."""
        answer = self._wire.ask(self._question)
        if answer.error is not None:
            raise StoreUnavailable(answer.error, definite=False)
        return answer.entry if isinstance(answer, Noted) else answer.text


class RemoteLedger(Ledger):
    """The ledger of an attempt, written by the worker that holds the job."""

    def __init__(self, wire: Wire, claim: Claim, declared: tuple[str, ...] = ()) -> None:
        super().__init__(cast("Any", None), claim, payload.encode_value, declared)
        self._wire = wire

    def write(self, note: LedgerNote) -> Any:
        """Let the worker write a note."""
        return Asked(self._wire, Note(note))

    def fetch(self, name: str) -> Any:
        """Let the worker read a receipt."""
        return Asked(self._wire, FetchReceipt(name))


class ToWorker(logging.Handler):
    """Sends log records to the worker, whose own logging decides where they go."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def emit(self, record: logging.LogRecord) -> None:
        """Send one line. One that cannot be written is reported on standard error, as every handler does."""
        call_guarded(lambda: self._wire.send(_line(record)), lambda _error: self.handleError(record))


def _line(record: logging.LogRecord) -> LogLine:
    """Return a record as it is sent: plain text and plain numbers, whatever its author put there."""
    trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
    return LogLine(
        name=_sendable(record.name),
        level=int(record.levelno),
        text=_sendable(record.getMessage()),
        file=_sendable(record.pathname),
        line=int(record.lineno),
        function=None if record.funcName is None else _sendable(record.funcName),
        trace=_sendable(trace[:LONGEST_TRACE]) or None,
    )


def _sendable(text: object) -> str:
    """Return plain text; what is no Unicode in it is escaped."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def main() -> None:
    """Serve the worker until it is gone."""
    isolated_handler.in_child = True
    wire = Wire(int(sys.argv[1]))
    os.set_inheritable(int(sys.argv[1]), False)  # noqa: FBT003 - it takes no keyword
    threading.Thread(target=wire.read_all, name="standfast-parent", daemon=True).start()
    logging.getLogger().addHandler(ToWorker(wire))
    while True:
        task = wire.work.get()
        if isinstance(task, Prepare):
            wire.send(Prepared(_prepare(task)))
        else:
            _send_end(wire, _ran(wire, task))


def _send_end(wire: Wire, ended: Ended) -> None:
    """Send how a handler ended. If that cannot be written, the attempt failed with the error that says so."""
    call_guarded(lambda: wire.send(ended), lambda error: wire.send(_raised(error)))


def _prepare(task: Prepare) -> str | None:
    """Import the module that registers a handler; return why the handler is not here, if so."""
    logging.getLogger().setLevel(task.log_level)
    if _found(task.place) is not None:
        return None
    sys.path[:] = task.path
    failed: str | None = call_guarded(lambda: _import(task.place), _trace)
    if failed is None and _found(task.place) is None:
        return f"importing {task.place.script or task.place.module} does not register it"
    return failed


def _import(place: Place) -> None:
    for names in _imported(place):
        for each in list(names.values()):
            give = getattr(type(each), "__standfast__", None)
            if give is not None and _found(place) is None:
                give(each)  # an application that registers its handlers on first use
        if _found(place) is not None:
            return


def _imported(place: Place) -> Iterator[dict[str, Any]]:
    """Yield the names of each module that may register the handler; the next one is imported only if needed."""
    if place.application:
        yield vars(importlib.import_module(place.application))
    if place.script is not None:
        yield runpy.run_path(place.script, run_name=MAIN)
    else:
        yield vars(importlib.import_module(place.module))


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-LONGEST_TRACE:]


def _found(place: Place) -> IsolatedHandler | None:
    return isolated_handler.MADE.get((place.queue, place.name, place.qualname))


def _ran(wire: Wire, task: Begin) -> Ended:
    """Run a handler and judge its outcome, as a worker would."""
    try:
        return call_guarded(lambda: _entered(wire, task), _raised)
    finally:
        wire.job = None


def _entered(wire: Wire, task: Begin) -> Ended:
    handler = isolated_handler.MADE[task.place[:3]]
    given = handler.read(task.claim.payload, collected=task.claim.details.collected)
    job = wire.job = _new_job(wire, task, given)
    SESSION.set(task.claim.details.session)
    wire.send(Entered())
    try:
        return _ended(judge_return(handler, job, call_plain(handler.plain, job)))
    except (SystemExit, KeyboardInterrupt) as error:  # a failed attempt, not the end of the process
        return _raised(error)


def _raised(error: BaseException) -> Ended:
    failed = with_place(classify.of_exception(error), error)
    return Ended(failed=failed, trace=traceback_of(error), error=pickled(error))


def _new_job(wire: Wire, task: Begin, given: Any) -> Job:
    services = JobServices(
        begin_ledger=lambda claim: RemoteLedger(wire, claim),
        fetch=lambda step: Asked(wire, FetchResult(step)).result(),
        report=lambda claim, fraction, note: wire.send(Report(*checked(claim, fraction, note))),
    )
    job = Job(task.claim, task.rules, given, services)
    if task.declared:
        job.keep(RemoteLedger(wire, task.claim, task.declared))
    return job


def _ended(outcome: object) -> Ended:
    match outcome:
        case Succeeded():
            return Ended(succeeded=outcome)
        case Snooze():
            return Ended(snoozed=outcome)
        case Cancel(why):
            return Ended(cancelled=Cancel(printable(why)))
        case Failed():
            return Ended(failed=outcome)
    raise TypeError(f"a plain handler cannot end as {outcome!r}")


if __name__ == "__main__":
    main()

"""The writer of one database in a process: all waiting requests share one transaction and one commit.

A round is one transaction. It takes every request that is waiting once it has begun, runs each script once for all
its callers, writes one journal row, commits, and only then answers all the callers. What differs between databases is
in `database.Database`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from standfast.clock import Clock
from standfast.concurrency.threads import start
from standfast.errors import ConfigurationError, StoreDamaged, StoreUnavailable, StoreUnusable, WrongAddress
from standfast.store import requests
from standfast.store.caller_transaction import CallerTransaction
from standfast.store.database import Database, Handle
from standfast.store.hints import Hint
from standfast.store.requests import NEVER, Reading, Reply, Request, deliver
from standfast.store.scripts import Call, RoundScripts, Write
from standfast.store.steps import Round, Script
from standfast.store.waiting_requests import Deadlines, Leader, Line, StandingClaims

log = logging.getLogger("standfast.store")

MOST_ITEMS = 5000
"""The most items one round takes. The rest wait for the next, so that no caller waits behind a mountain of work."""
FIRST_SHARE = 4
"""What the server could not do in time is tried again a quarter at a time."""
GROWTH = 8
"""Each round that is served lets the next one be larger again, by an eighth."""
DIVIDE = "the server could not write so much in one transaction; write it in parts"

PAUSE_AFTER_TROUBLE = 0.05
LONGEST_WAIT_FOR_PAUSE = 5.0

FAULTS = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)
"""What a script can raise because of a mistake of ours or an unexpected value."""


class CommitUnknown(Exception):
    """COMMIT raised, so the transaction may have landed."""


T = TypeVar("T")


class Engine(Database[Handle]):
    """One database, open for writing."""

    def __init__(self, clock: Clock, scripts: RoundScripts, audit_file: str | None = None) -> None:
        self._clock = clock
        self._scripts = scripts
        self.anchor = scripts.anchor(audit_file)
        self._waiting = Line()
        self._held_up = self._waiting.held_up
        self._most = MOST_ITEMS
        """The most items the next round takes: fewer after a round that the server could not do in time."""
        self._began = 0.0
        """When the last round began."""
        self._deadlines = Deadlines(self._waiting)
        self.standing_claims = StandingClaims()
        self._listeners: list[Callable[[Hint], None]] = []
        self._connection: Handle | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._round = threading.Lock()
        """Held while the writer, or a caller in its place, runs a round, and while no round may begin."""
        self._leader = Leader(self._waiting, self._round, self._lead)
        self.abandoned = False
        """Whether this engine belongs to the process that this one was forked from."""
        self.trouble: str | None = None
        """The last error that the writer has not recovered from yet, for health."""

    # --- life

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="standfast-writer", daemon=True)
        start(self._thread)

    def close(self) -> None:
        """Serve the waiting requests, then close the database."""
        self._closing = True
        self._waiting.wake()
        if self._thread is not None:
            self._thread.join()
        with self._round:  # a caller may be running a round
            self._waiting.close()
        self._shut()

    def pause(self) -> bool:
        """Close every handle, and open none before `resume`; return False if the current work takes too long."""
        if not self._round.acquire(timeout=LONGEST_WAIT_FOR_PAUSE):
            return False
        if not self._pause_readers(LONGEST_WAIT_FOR_PAUSE):
            self._round.release()
            return False
        self._drop_connection()
        return True

    def resume(self) -> None:
        """Continue; the next use opens the database again."""
        self._resume_readers()
        self._round.release()

    # --- calls

    def call(
        self, script: Write[Any, Any], items: Sequence[Any], *, seconds: float | None, single: bool = False
    ) -> Request[Any]:
        """Run a script in the next round; its result comes when it is on disk."""
        return Request(script, items, self.put, seconds=seconds, single=single)

    def put(self, request: Request[Any]) -> None:
        """Serve a request in the next round. Its own caller runs the round if that is quicker."""
        if not (request.script.leads and self.CAN_BE_LED and self._leader.offer(request)):
            self._waiting.put(request)
        if request.loop is not None and request.deadline < self._deadlines.timed.get(request.loop, NEVER):
            self._deadlines.watch(request)

    def read(self, script: Script[T]) -> Reading[T]:
        """Run a reading script in parallel to the writer."""
        return Reading(lambda: self._read(script))

    def caller_transaction(self, tx: object) -> CallerTransaction:
        """Write inside one of the caller's transactions, if that can be in the same database as the store."""
        raise ConfigurationError(
            f"tx must lead to a SQLite database (sqlite3, SQLAlchemy or Django), and this {type(tx).__name__} does "
            "not, because the store is a separate file; nothing was written"
        )

    def listen(self, listener: Callable[[Hint], None]) -> None:
        """Call this listener when a queue gets work, from this process or another one."""
        self._listeners.append(listener)
        self._listen(self._tell)

    def unlisten(self, listener: Callable[[Hint], None]) -> None:
        """Stop calling this listener."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def _tell(self, hint: Hint) -> None:
        for listener in list(self._listeners):
            listener(hint)

    # --- the writer thread

    def _run(self) -> None:
        pending: list[Request[Any]] = []
        while pending or not (self._closing and self._is_done()):
            if not (pending or self._closing):
                self._waiting.sleep()
            with self._round:
                if self._held_up.requests and not pending:
                    pending = self._try_held_up()
                if not pending:
                    self._waiting.join(pending, self._most)
                if pending:
                    served = pending
                    pending = self._serve(served)
                    self._leader.took(served, time.monotonic() - self._began)

    def _try_held_up(self) -> list[Request[Any]]:
        """Try a held-up request, if it is time; return it if that met other trouble."""
        if not (self._closing or self._held_up.is_due()):
            return []
        tried: list[Request[Any]] = []
        self._waiting.join_held_up(tried)
        if not tried:
            return []
        left = self._serve([*tried], alone=True)
        if not (left or tried[0] in self._held_up.requests):
            self._waiting.return_first(self._held_up.release(tried[0]))
        return left

    def _is_done(self) -> bool:
        """Return whether nothing is left to serve. A caller that runs a round may still give back what it took."""
        with self._round:
            return not (self._waiting.waiting or self._held_up.requests)

    def _serve(self, pending: list[Request[Any]], *, alone: bool = False) -> list[Request[Any]]:
        """Run one round; return the requests that must be tried again."""
        self._began = time.monotonic()
        try:
            answers, round_ = self._transact(pending, alone=alone)
        except StoreUnusable as error:
            return self._refuse(pending, error)
        except WrongAddress as error:
            requests.refuse_for_good(pending, error)
            return self._after_trouble(pending, error, doubtful=False)
        except self.TROUBLE as error:
            if self._is_in_the_way(error):
                return self._try_each(pending, error)
            if self._is_too_much(error):
                return self._try_less(pending, error, doubtful=False)
            return self._after_trouble(pending, error, doubtful=False)
        except CommitUnknown as doubt:
            cause = doubt.__cause__ or doubt
            tried_again = self._try_less if self._is_too_much(cause) else self._after_trouble
            return tried_again(pending, cause, doubtful=True)
        except self.FAULTS as error:  # one script failed, and the others must not suffer
            return self._one_by_one(pending, error)
        self._finish(answers, round_)
        if self._most < MOST_ITEMS:
            self._most += 1 + self._most // GROWTH
        if self.must_tidy:
            self._tidy()
        return []

    def _lead(self, pending: list[Request[Any]]) -> list[Request[Any]]:
        """Run one round in a caller's turn, without waiting for anything; return the requests left to the writer."""
        if self._connection is None or self._closing or self.must_tidy:
            return pending
        try:
            try:
                answers, round_ = self._transact(pending, alone=True, waits=False)
            except CommitUnknown:
                self._drop_connection()
                return _put_back(pending, doubtful=True)
            except self.TROUBLE + self.FAULTS as error:
                log.debug("a round is left to the writer: %s", error)
                return _put_back(pending, doubtful=isinstance(error, StoreUnusable) and not error.definite)
        except BaseException:  # raised again: a signal may interrupt the caller that leads
            self._leave_interrupted(pending)
            raise
        try:
            self._finish(answers, round_)
        except BaseException:
            deliver(answers)  # a signal may have come before any caller was answered; none is answered twice
            raise
        finally:
            pending.clear()
        return []

    def _leave_interrupted(self, pending: list[Request[Any]]) -> None:
        """Hand a led round that a signal interrupted back to the writer: a caller's thread may be the main one.

        The transaction may still be open, or committed already.
        """
        _put_back(pending, doubtful=True)
        self._drop_connection()

    def _finish(self, answers: list[Reply], round_: Round) -> None:
        """Tell callers and workers about what is now on disk."""
        self.trouble = None
        deliver(answers)
        if round_.audit_links:
            self.anchor.drop(round_.audit_links)
        if round_.work:
            if self._listeners:
                self._tell(round_.work)
            self._ring(round_.work)

    def _transact(self, pending: list[Request[Any]], *, alone: bool, waits: bool = True) -> tuple[list[Reply], Round]:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._open()
        self._begin(connection, in_haste=alone or bool(self._held_up.requests), waits=waits)
        try:
            if not alone:
                self._waiting.join(pending, self._most)
            round_ = self._new_round(connection)
            refused = self._without_room(connection, round_, pending)
            if refused:
                requests.withdraw(refused)
            calls = requests.calls(pending, self._scripts.places)
            feeds = partial(self._fed, pending) if self.standing_claims.waiting else None
            results = self._drive(connection, self._scripts.run(round_, calls, feeds))
        except BaseException:  # raised again: whatever ends a transaction early, nothing of it may remain
            self._roll_back(connection)
            raise
        self._commit(connection)
        return requests.replies(calls, results), round_

    def _fed(self, pending: list[Request[Any]], round_: Round) -> list[Call]:
        """Take the standing claims for which a round has work; from then on they are ordinary requests."""
        if round_.claims_frozen or round_.starts_left is not None:
            return []
        due = {queue for queue, delay in round_.work.items() if delay <= 0}
        before = len(pending)
        self.standing_claims.take(due, pending)
        return requests.calls(pending[before:], self._scripts.places)

    def _one_by_one(self, pending: list[Request[Any]], error: Exception) -> list[Request[Any]]:
        _put_back(pending, doubtful=False)
        if len(pending) == 1:
            log.error("a store request failed", exc_info=error)
            deliver([(pending[0], self._explain(error))])
            return []
        again: list[Request[Any]] = []
        for request in pending:
            again += self._serve([request], alone=True)
        return again

    def _try_each(self, pending: list[Request[Any]], error: Exception) -> list[Request[Any]]:
        """Try each request by itself: another transaction holds what one needs, and the others must not wait."""
        if len(pending) == 1:
            self._hold_up(pending[0], error)
            return []
        _put_back(pending, doubtful=False)
        left: list[Request[Any]] = []
        for request in pending:
            alone = [request]
            self._held_up.divert(alone)
            left += self._serve(alone, alone=True) if alone else alone
        return left

    def _hold_up(self, request: Request[Any], error: Exception) -> None:
        """Keep a request apart from the line, to be tried again and again until its time is up."""
        self._note_trouble(error, is_news=not request.held_up)
        if not self._can_go_on_after(error):
            self._drop_connection()
        request.held_up = True
        request.put_back(doubtful=False)
        if self._closing:
            deliver([] if request.withdrawn else [(request, request.give_up())])
        else:
            self._held_up.add(request, time.monotonic() - self._began)

    def _try_less(self, pending: list[Request[Any]], error: BaseException, *, doubtful: bool) -> list[Request[Any]]:
        """Try again with less: the server could not do all of it in time, or had no room for it.

        A request of many items whose caller would wait forever goes back to that caller, to be handed in item by item.
        One that fails alone must not keep the others waiting. If the server was silent, it is tried again as ever.
        """
        self._most = max(1, sum(request.size for request in pending) // FIRST_SHARE)
        alone = len(pending) == 1
        left = self._after_trouble(pending, error, doubtful=doubtful)
        divided = [] if doubtful else [request for request in left if request.is_divisible]
        deliver([(request, StoreUnavailable(DIVIDE, definite=not request.doubtful)) for request in divided])
        left = [request for request in left if request not in divided]
        if alone and self._connection is not None:  # the server answered: this one is too much for it by itself
            for request in left:
                self._held_up.add(request, time.monotonic() - self._began)
        else:
            self._waiting.return_first(left)
        return []

    # --- trouble

    def _after_trouble(
        self, pending: list[Request[Any]], error: BaseException, *, doubtful: bool
    ) -> list[Request[Any]]:
        """Drop the connection, wait a little, and return the requests whose callers still wait."""
        self._note_trouble(error)
        _put_back(pending, doubtful=doubtful)
        if doubtful or not self._can_go_on_after(error):
            self._drop_connection()
        time.sleep(PAUSE_AFTER_TROUBLE)
        if self._closing:
            deliver([(request, request.give_up()) for request in pending if not request.withdrawn])
            return []
        return [request for request in pending if not request.withdrawn]

    def _note_trouble(self, error: BaseException, *, is_news: bool = True) -> None:
        trouble = f"{type(error).__name__}: {error}"
        if is_news and trouble != self.trouble:
            log.warning("the store is in trouble, trying again: %s", trouble)
        self.trouble = trouble

    def _refuse(self, pending: list[Request[Any]], error: StoreUnusable) -> list[Request[Any]]:
        """Tell every caller that the store cannot be used; trying again would not help."""
        self.trouble = str(error)
        if isinstance(error, StoreDamaged):
            self._drop_connection()
        left = [(request, error.definite and not request.doubtful) for request in pending if not request.withdrawn]
        deliver([(request, error.for_caller(definite=definite)) for request, definite in left])
        return []

    def _explain(self, error: Exception) -> Exception:
        """Reword an error for its caller, if the caller can fix it."""
        return error

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._let_go(connection)


def _put_back(pending: list[Request[Any]], *, doubtful: bool) -> list[Request[Any]]:
    for request in pending:
        request.put_back(doubtful=doubtful)
    return pending

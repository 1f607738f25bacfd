"""What an engine needs of a database, and what each kind of database does in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar, Generic, TypeVar

from standfast.store.hints import Hint
from standfast.store.requests import Reply, Request
from standfast.store.room import ROOM_TO_ACCEPT
from standfast.store.steps import Round, Script

T = TypeVar("T")
Handle = TypeVar("Handle")


class Database(ABC, Generic[Handle]):
    """One kind of database, as its engine uses it."""

    TROUBLE: ClassVar[tuple[type[Exception], ...]]
    """Errors that may pass: the round is tried again until its callers' deadlines."""
    FAULTS: ClassVar[tuple[type[Exception], ...]]
    """Errors that are one script's own fault."""
    CAN_BE_LED: ClassVar[bool] = False
    """Whether a caller may run a round in its own turn; not if that waits for a network."""
    must_tidy = False
    """Whether there is something to tidy between two rounds; then the writer must run them."""

    @abstractmethod
    def open(self) -> None:
        """Open the database, bring its schema up to date, set the clock, and start the writer."""

    @abstractmethod
    def abandon(self) -> None:
        """Discard a paused engine in a forked child, which does not have its writer thread."""

    @abstractmethod
    def now(self) -> float:
        """Return the present queue time."""

    @abstractmethod
    def skew(self) -> float:
        """Return wall time minus queue time."""

    @abstractmethod
    def boot(self) -> str:
        """Identify the boot that workers belong to: workers of another boot are certainly gone."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the free disk space."""

    def room_to_accept(self) -> int:
        """Return how many free bytes new work needs."""
        return ROOM_TO_ACCEPT

    @abstractmethod
    def back_up(self, path: str) -> dict[str, int]:
        """Copy the store to a new file while it is in use; return what the copy holds."""

    @abstractmethod
    def _open(self) -> Handle: ...

    @abstractmethod
    def _shut(self) -> None: ...

    @abstractmethod
    def _let_go(self, connection: Handle) -> None: ...

    @abstractmethod
    def _begin(self, connection: Handle, *, in_haste: bool = False, waits: bool = True) -> None: ...

    @abstractmethod
    def _new_round(self, connection: Handle) -> Round:
        """Start the record of what a transaction does; check that the database may still be written to."""

    def _without_room(self, connection: Handle, round_: Round, pending: list[Request[Any]]) -> list[Reply]:  # noqa: ARG002
        """Return the requests that the disk has no room for, each with the error for its caller."""
        return []

    @abstractmethod
    def _roll_back(self, connection: Handle) -> None: ...

    @abstractmethod
    def _commit(self, connection: Handle) -> None:
        """Commit, or raise CommitUnknown."""

    def _tidy(self) -> None:
        """Do what `must_tidy` asks for; by then the callers have their answers."""

    def wal(self) -> tuple[int, list[str]]:
        """Return the size of the log that a file has next to it, and what keeps it from shrinking."""
        return 0, []

    @abstractmethod
    def _drive(self, connection: Handle, script: Script[Any]) -> Any: ...

    @abstractmethod
    def _can_go_on_after(self, error: BaseException) -> bool:
        """Return whether the connection is as good as before."""

    def _is_in_the_way(self, error: BaseException) -> bool:  # noqa: ARG002 - one process writes at a time
        """Return whether the only problem was another transaction."""
        return False

    def _is_too_much(self, error: BaseException) -> bool:  # noqa: ARG002 - a statement on a file takes as long as it takes
        """Return whether the server could not do so much in time, or had no room for it."""
        return False

    @abstractmethod
    def _read(self, script: Script[T]) -> Future[T]: ...

    @abstractmethod
    def _pause_readers(self, seconds: float) -> bool: ...

    @abstractmethod
    def _resume_readers(self) -> None: ...

    @abstractmethod
    def _listen(self, listener: Callable[[Hint], None]) -> None: ...

    @abstractmethod
    def _ring(self, hint: Hint) -> None: ...

"""What an engine needs of a database, and each kind of database does its own way."""

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
    """What may pass: the round is tried again until its callers' deadlines."""
    FAULTS: ClassVar[tuple[type[Exception], ...]]
    """What is the fault of one script."""
    CAN_BE_LED: ClassVar[bool] = False
    """Whether a caller may run a round in its own turn: not where that waits for a network."""
    must_tidy = False
    """Whether there is something to tidy between two rounds: then they are the writer's."""

    @abstractmethod
    def open(self) -> None:
        """Open the database, bring its schema forward, set the clock, start the writer."""

    @abstractmethod
    def abandon(self) -> None:
        """Forget a paused engine in a forked child, whose writer is not there."""

    @abstractmethod
    def now(self) -> float:
        """Give the present queue time."""

    @abstractmethod
    def skew(self) -> float:
        """Give wall time minus queue time."""

    @abstractmethod
    def boot(self) -> str:
        """Identify the boot that workers belong to: those of another one are gone for certain."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Give the disk space left."""

    def room_to_accept(self) -> int:
        """Give the free bytes that new work needs."""
        return ROOM_TO_ACCEPT

    @abstractmethod
    def back_up(self, path: str) -> dict[str, int]:
        """Copy the store to a new file while it goes on; give what the copy holds."""

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
        """Begin to note what a transaction does; look whether the database may still be written to."""

    def _without_room(self, connection: Handle, round_: Round, pending: list[Request[Any]]) -> list[Reply]:  # noqa: ARG002
        """Give the requests that the disk has no room for, with what their callers are told."""
        return []

    @abstractmethod
    def _roll_back(self, connection: Handle) -> None: ...

    @abstractmethod
    def _commit(self, connection: Handle) -> None:
        """Commit, or raise Doubt."""

    def _tidy(self) -> None:
        """Do what `must_tidy` asks for; the callers have their answers."""

    def wal(self) -> tuple[int, list[str]]:
        """Give the size of the log that a file has beside it, and who keeps it from becoming smaller."""
        return 0, []

    @abstractmethod
    def _drive(self, connection: Handle, script: Script[Any]) -> Any: ...

    @abstractmethod
    def _can_go_on_after(self, error: BaseException) -> bool:
        """Tell whether the connection is as good as before."""

    def _is_in_the_way(self, error: BaseException) -> bool:  # noqa: ARG002 - one process writes at a time
        """Tell whether only another transaction was in the way."""
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

"""Standfast: the object an application holds. It declares, accepts, reads and works; lower layers hold the rules."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Never, Self, TypeVar, Unpack, overload

from standfast import settings
from standfast.application.accepting import Accepting
from standfast.application.calling import Calling
from standfast.application.hooking import Hooking
from standfast.application.looking import Looking
from standfast.application.operating import Operating
from standfast.application.registering import HandlerOptions, Register, RegisterInput, declare, types_of
from standfast.application.wrapping import wrap_function
from standfast.concurrency.locks import ForkableLock
from standfast.concurrency.loops import Loop
from standfast.concurrency.threads import run_in_thread
from standfast.failure.own_kinds import declare_kinds
from standfast.job import Risk
from standfast.profiles import rules_for
from standfast.rules import QueueRules, ReplayMode, Seconds, WhenLanded
from standfast.spine.registry import Handler
from standfast.typed.job_options import Duration, ScheduleOptions, When
from standfast.typed.queue_options import QueueOptions
from standfast.typed.sync import Sync
from standfast.typed.unknown_options import refuse_unknown_of_handler
from standfast.wings.alerts import delivery, subscribers
from standfast.wings.alerts.follower import EVERY as FOLLOW_EVERY
from standfast.wings.alerts.lookout import EVERY as LOOK_EVERY
from standfast.wings.alerts.surfaces import QUEUE
from standfast.wings.effects.declared import Effects, checked_effects
from standfast.wings.isolation.isolated_handler import IsolatedHandler
from standfast.wings.isolation.isolated_handler import check as check_importable
from standfast.wings.limits.probes import Requires, checked_probes
from standfast.wings.limits.queue_gates import QueueGates
from standfast.wings.relay.outbox import RELAY_EVERY, Connect, Outbox, Table
from standfast.wings.schedules.declared_schedules import EVERY as SCHEDULES_EVERY
from standfast.wings.schedules.rules import Missed
from standfast.worker.life_hooks import LifeHooks
from standfast.worker.service import (
    Ending,
    ProcessOptions,
    drain_all,
    run_suspects_until_none,
    work_until_signalled,
)
from standfast.worker.upkeep import PruneRequest
from standfast.worker.worker import GRACE, SLOTS, Worker

T = TypeVar("T")


class Standfast(Hooking, Accepting, Calling, Looking, Operating):
    """A durable queue on one store. It opens itself on first use; `await sf.close()` or `async with` closes it.

    Once closed, every use raises `StoreClosed`, and opens neither a store nor a file.
    """

    @property
    def sync(self) -> Sync:
        """Every awaited verb as a plain call, from any thread: `sf.sync.wait(id, 10)`. See docs/plain-code.md."""
        return Sync(self)

    # --- declaring

    def queue(self, name: str, **rules: Unpack[QueueOptions]) -> QueueRules:
        """Declare a queue's rules; `standfast.toml` overrides them. A second call changes only the rules it names.

        `QueueOptions` says what each rule means. A queue named in `standfast.profiles` takes its defaults from there.
        """
        given = self._declared.with_earlier(name, rules)
        said = rules_for(name, **given)
        declared = self.settings.over(name, said)
        overruled = [rule for rule in given if getattr(said, rule) != getattr(declared, rule)]
        self._commands.serve(name, declared)
        self._registry.add_gate(name, given.get("gate"))
        self._declared.declare(name, said, declared, overruled, given)
        return declared

    @overload
    def handler(self, queue: str, *, input: type[T], **options: Unpack[HandlerOptions]) -> RegisterInput[T]: ...
    @overload
    def handler(self, queue: str, *, input: Any = None, **options: Unpack[HandlerOptions]) -> Register: ...
    def handler(
        self,
        queue: str,
        *,
        name: str | None = None,
        input: Any = None,
        replay: ReplayMode | None = None,
        effects: Effects = (),
        requires: Requires = (),
        consent: bool = False,
        risk: Risk | None = None,
        timeout: float | None = None,
        soft: bool = True,
        when_landed: WhenLanded | None = None,
        isolate: bool = False,
        **unknown: Never,
    ) -> Any:
        """Register a function, plain or async, as a handler of a queue.

        `replay="replay"` repeats it after an unknown outcome. `"verify_first"` looks at its `effects` before a repeat
        if any may have happened; `"manual"` leaves every repeat to a person. The default is `[store] replay` of
        `standfast.toml`, else `"replay"`. `when_landed` says what to do if that look finds that every effect happened:
        `"resume"` runs the handler again with `e.done` true, so that the code after the effects runs too; `"complete"`
        completes the job; by default, handlers that record effects are resumed. See docs/effects.md.
        With `consent`, it runs only for sessions that have consented (`sf.consent`); see docs/sessions.md.
        `requires` are probes, functions that say yes or URLs that answer 2xx: while one says no, the handler is
        disabled in this process, and its jobs wait without spending attempts. See docs/agents.md.
        With `isolate`, a plain function runs in a child process, which is killed with all it started at its timeout or
        when the job is cancelled; see docs/isolation.md.
        The payload's type is read from the annotation: with `job: Job[Mail]`, `job.input` is a Mail. Without an
        annotation, pass `input=Mail`. If payloads are collected, write `job: Job[list[Mail]]` and `input=Mail`.
        """
        refuse_unknown_of_handler(queue, unknown, ("input", *HandlerOptions.__annotations__))
        said: dict[str, Any] = {"consent": consent, "when_landed": when_landed, "risk": risk, "timeout": timeout}
        mode = self._default_replay.mode(effects) if replay is None else replay
        declaration = declare(queue, name, replay=mode, **said)
        options: dict[str, Any] = {
            "effects": checked_effects(declaration, effects, by_default=replay is None),
            "requires": checked_probes(requires),
        }

        def register(function: Callable[..., Any]) -> Handler:
            made: Callable[..., Handler] = Handler
            where = sys._getframe(1)  # noqa: SLF001 - names the module that a child imports, and resolves annotations
            if isolate:
                # The module that calls this, unless it registers for another module.
                module = getattr(function, "registered_in", where.f_globals.get("__name__", ""))
                made = partial(IsolatedHandler, children=self._children, module=module)
            types = types_of(function, declaration.name, input, where)
            handler = made(function, declaration, self, soft=soft, **types, **options)
            for wrap in self._wraps:
                wrap_function(handler, wrap)
            self._registry.add(handler)
            if replay is None:
                self._default_replay.add(handler)
            self._declared.changed()
            return handler

        return register

    def schedule(
        self,
        name: str,
        queue: str,
        payload: Any = None,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        at: When | str | None = None,
        tz: str = "UTC",
        missed: Missed = "latest",
        jitter: Duration = 0,
        overlap: bool = False,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        """Declare a schedule in code, next to the handlers: workers and servers publish it when they start.

        The options are those of `sf.schedules.add`. An unchanged schedule keeps its next run and its pause. Once no
        process declares it any more, it is paused, and `sf.health()` names it; see docs/schedules.md.
        """
        where = sys._getframe(1).f_globals.get("__name__", "")  # noqa: SLF001 - the module that declares it
        times: dict[str, Any] = {"cron": cron, "every": every, "at": at, "tz": tz}
        ticks: dict[str, Any] = {"missed": missed, "jitter": jitter, "overlap": overlap}
        self._declared_schedules.declare(name, where, queue=queue, payload=payload, **times, **ticks, **options)

    def error_kinds(self, kinds: Mapping[str, str]) -> None:
        """Declare your own error kinds, each with its class: `sf.error_kinds({"vault_locked": "transient"})`.

        They classify the failures of handlers that raise or return such an `error_kind`: `transient` and `unknown` are
        repeated, `permanent` is not. This applies to this process; declare them where your handlers are.
        """
        declare_kinds(kinds)

    # --- working

    def worker(
        self,
        queues: Sequence[str] | None = None,
        concurrency: int = SLOTS,
        *,
        grace: Seconds = GRACE,
        suspects: Sequence[str] | None = None,
        total: int | None = None,
    ) -> Worker:
        """Run jobs in this process: `async with sf.worker(): ...`. `concurrency` is slots per queue.

        `total` also limits the slots over all queues; while few are free, queues take turns.
        `suspects` is the command that runs `run_suspects` in a process of its own, for jobs whose worker died while it
        ran them; without it, this worker runs them itself, one at a time, while it holds no other job.
        """
        return self._new_worker(queues, concurrency, grace=grace, suspects=suspects, total=total, life=self._life)

    def _new_worker(
        self,
        queues: Sequence[str] | None,
        concurrency: int,
        *,
        grace: float,
        suspects: Sequence[str] | None = None,
        suspects_only: bool = False,
        total: int | None = None,
        life: LifeHooks | None = None,
    ) -> Worker:
        self._store.check_not_closed()
        following = [self._scheduling(), self.shared_settings.loop()]
        beside = [*self._alerting(), *self._subscribing(), *following, *self._outboxes.loops()]
        made = Worker(
            self._store,
            self._registry,
            verifier=self._verifier,
            doors=QueueGates(self._registry.gates, self._sender.ask),
            readiness=self._readiness,
            letters=self.dead_letters,
            policy=self.policy,
            consent=self.consent,
            tracing=self.tracing,
            prune=PruneRequest(keep_messages=self.settings.keep_inbox.value),
            beside=beside,
            declared=self._declared,
            ready=self._ready_to_work,
            queues=self._with_carrier(queues),
            concurrency=concurrency,
            grace=grace,
            suspects=suspects,
            suspects_only=suspects_only,
            total=total,
            life=life,
            middleware=self._middleware,
        )
        self._workers.add(made)
        return made

    async def _ready_to_work(self) -> None:
        """Publish the declarations, and check that child processes can import the isolated handlers."""
        handlers = [each for each in self._registry.own.values() if isinstance(each, IsolatedHandler)]
        await check_importable([each for each in handlers if each not in self._importable])
        self._importable.update(handlers)
        await self._ready()
        await self._declared_schedules.publish()

    def _with_carrier(self, queues: Sequence[str] | None) -> Sequence[str] | None:
        """Add the internal queues to a worker's named queues: perhaps no other worker serves them."""
        carriers = [each for each in (QUEUE, subscribers.QUEUE) if self._registry.find(each, each) is not None]
        return queues if queues is None else [*queues, *(each for each in carriers if each not in queues)]

    def _alerting(self) -> list[Loop]:
        """Return the loops that find alerts; if `[notify]` names surfaces, also serve the queue that delivers them."""
        looking = Loop("lookout", LOOK_EVERY, self._lookout.look)
        if not self._notify.surfaces and self._notify.pain is None:
            return [looking]
        self._notify.check_extras()
        if self._registry.find(QUEUE, QUEUE) is None:
            self._registry.add(delivery.handler(self, self._notify, self._sender, self.clock, self._sinks))
            rules = delivery.with_room(self.settings.over(QUEUE, delivery.RULES), self._notify)
            self._declared.declare(QUEUE, delivery.RULES, rules)
        following = Loop("alerts", FOLLOW_EVERY, self._follower.follow) if self._notify.surfaces else None
        return [looking, Loop("teller", FOLLOW_EVERY, self._announcer.announce), *([following] if following else [])]

    def _scheduling(self) -> Loop:
        """Return the loop that keeps the schedules declared here alive, and pauses those removed from the code."""
        return Loop("declared schedules", SCHEDULES_EVERY, self._declared_schedules.keep_up)

    def _subscribing(self) -> list[Loop]:
        """Return the loop that delivers notices to the subscribers in `[notify]`, if it names any."""
        if not self._notify.subscribers:
            return []
        if self._registry.find(subscribers.QUEUE, subscribers.QUEUE) is None:
            self._registry.add(subscribers.handler(self, self._notify, self._sender, self.clock, self._sinks))
            rules = self.settings.over(subscribers.QUEUE, delivery.RULES)
            self._declared.declare(subscribers.QUEUE, delivery.RULES, rules)
        return [Loop("subscriptions", subscribers.EVERY, self._subscriptions.carry)]

    @asynccontextmanager
    async def alerting(self) -> AsyncIterator[None]:
        """Look for alerts in a process that runs no jobs: `async with sf.alerting(): ...`. Workers do so anyway.

        Some process must look even if there is no worker: that may be just what is wrong. So if `[notify]` says whom to
        tell, this runs a worker of its own that does nothing but deliver.
        """
        async with AsyncExitStack() as stack:
            if self._notify.speaks:
                await stack.enter_async_context(self._new_worker((), SLOTS, grace=delivery.GRACE))
            else:
                await self._look_alone(stack)
            yield

    async def _look_alone(self, stack: AsyncExitStack) -> None:
        """Look for alerts without a configured surface, until the stack ends."""
        loops = [*self._alerting(), self._scheduling()]
        await self._ready()
        await self._declared_schedules.publish()
        for loop in loops:
            loop.start()
            stack.push_async_callback(loop.stop)

    def run_worker(
        self,
        queues: Sequence[str] | None = None,
        concurrency: int = SLOTS,
        *,
        grace: Seconds = GRACE,
        suspects: Sequence[str] | None = None,
        total: int | None = None,
        process: ProcessOptions | None = None,
    ) -> Ending:
        """Work until a signal comes: the first SIGTERM or SIGINT drains, a second one exits at once.

        `process` has the other options of `standfast worker` (`--once`, `--recycle-after`, `--alive`); the return value
        says why it ended.
        """
        where = settings.without_password(self.settings.url.value)
        make = partial(self.worker, queues, concurrency, grace=grace, suspects=suspects, total=total)
        return asyncio.run(work_until_signalled(self, make, grace, where, process))

    def run_suspects(
        self, queues: Sequence[str] | None = None, *, parent: int, grace: Seconds = GRACE, tell: int | None = None
    ) -> None:
        """Run jobs whose worker died while it ran them, one at a time, until none is left or the parent is gone.

        `tell` is a pipe that tells the parent when this process can run them.
        """
        make = partial(self._new_worker, queues, 1, grace=grace, suspects_only=True, life=self._life)
        asyncio.run(run_suspects_until_none(self, make, parent, tell))

    def outbox(self, connect: Connect, *, every: Seconds = RELAY_EVERY, with_workers: bool = False) -> Outbox:
        """Bring here the jobs enqueued with `tx=` in your own database; `connect` opens it, as `sqlite3` does.

        `async with sf.outbox(connect):` looks every `every` seconds; `await outbox.relay()` looks once. Called once
        where your handlers are, `sf.outbox(connect, with_workers=True)` makes every worker look as long as it runs.
        """
        made = Outbox(self._store, self._ready, Table(self._store, connect), every, self._outbox_marker)
        self._outboxes.add(made, with_workers=with_workers)
        return made

    # --- life

    async def open(self) -> Self:
        """Open the store and publish the declarations; if jobs can be spooled, the store may still be away.

        The first use also opens it; after `close` only this does.
        """
        self._store.reopen()
        await self._reception.open()
        return self

    async def close(self) -> None:
        """Drain the workers of this process, and close the store and the HTTP connections.

        Every later call raises `StoreClosed`, until `open` or `async with` opens it again.
        """
        await drain_all(self._workers)
        try:
            await self._callers.close()
        except asyncio.CancelledError:  # nothing gets more time, but everything is still closed in order
            await self._let_go()
            raise
        await self._let_go()

    async def _let_go(self) -> None:
        await self._children.close()
        await self._journals.close()
        await self._sender.close()
        await run_in_thread(self._reception.close)
        await run_in_thread(self._outbox_marker.close)
        await self._fallbacks.tell()
        await run_in_thread(self._store.close)
        self._declared.forget()
        self._declared_schedules.forget()
        await self._outboxes.close()

    async def __aenter__(self) -> Self:
        """Open the store; see `open`."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store; see `close`."""
        await self.close()


_default: list[Standfast] = []
_making_default = ForkableLock()


def default() -> Standfast:
    """Return the process-wide Standfast, created on first use from the environment and `standfast.toml`."""
    with _making_default:
        if not _default:
            _default.append(Standfast())
        return _default[0]

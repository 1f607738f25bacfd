"""Standfast: the object an application holds. It declares, accepts, looks and works; each verb's rules live below."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

from standfast import settings
from standfast.application.accepting import Accepting
from standfast.application.calling import Calling
from standfast.application.looking import Looking
from standfast.application.operating import Operating
from standfast.concurrency.locks import ForkableLock
from standfast.concurrency.loops import Loop
from standfast.concurrency.threads import run_in_thread
from standfast.profiles import rules_for
from standfast.rules import QueueRules, Seconds
from standfast.spine.registry import Handler, declare
from standfast.wings.alerts import delivery, subscribers
from standfast.wings.alerts.follower import EVERY as FOLLOW_EVERY
from standfast.wings.alerts.lookout import EVERY as LOOK_EVERY
from standfast.wings.alerts.surfaces import QUEUE
from standfast.wings.effects.declared import Effects, checked_effects
from standfast.wings.limits.probes import Requires, checked_probes
from standfast.wings.limits.queue_gates import QueueGates
from standfast.wings.relay.outbox import RELAY_EVERY, Connect, Outbox
from standfast.worker.service import run_suspects_until_none, work_until_signalled
from standfast.worker.upkeep import PruneRequest
from standfast.worker.worker import GRACE, SLOTS, Worker, drain_all


class Standfast(Accepting, Calling, Looking, Operating):
    """A durable queue on one store. Opens itself on first use; `await sf.close()` or `async with` to let go.

    Once closed, every use raises, and nothing is opened: neither a store nor a file.
    """

    # --- declaring

    def queue(self, name: str, **rules: Any) -> QueueRules:
        """Declare a queue's rules; see `QueueRules` for each setting. `standfast.toml` overrides what code says.

        For the names in `standfast.profiles` the defaults are the ready-made ones.
        """
        said = rules_for(name, **rules)
        declared = self.settings.over(name, said)
        overruled = [rule for rule in rules if getattr(said, rule) != getattr(declared, rule)]
        self._commands.serve(name, declared)
        self._registry.add_gate(name, rules.get("gate"))
        self._declared.declare(name, said, declared, overruled)
        return declared

    def handler(
        self,
        queue: str,
        *,
        name: str | None = None,
        input: Any = None,
        replay: Literal["replay", "verify_first", "manual"] = "replay",
        effects: Effects = (),
        requires: Requires = (),
        consent: bool = False,
        risk: str | None = None,
        timeout: float | None = None,
        soft: bool = True,
        when_landed: Literal["resume", "complete"] | None = None,
    ) -> Callable[[Callable[..., Any]], Handler]:
        """Register a function, plain or async, as the one that does a queue's work.

        The default `replay="replay"` repeats it after an unknown outcome. `"verify_first"` looks at its `effects`
        before a repeat if any may be there; `"manual"` leaves every repeat to a person. `when_landed` says what follows
        when all of them are: `"resume"` runs the handler again, with `e.done` true, so that the code behind them is not
        lost; `"complete"` completes the job. Unless told, a handler that keeps the ledger is resumed. See
        docs/effects.md.
        With `consent`, it is entered only for sessions that have consented (`sf.consent`); see docs/sessions.md.
        `requires` are probes, functions that say yes or URLs that answer 2xx: while one says no, the handler is
        disabled in this process, and its jobs wait without spending attempts. See docs/agents.md.
        `input` is the type of one payload, read as `job.input`; where payloads are collected, that is a list of it.
        """
        given: dict[str, Any] = {"replay": replay, "risk": risk, "timeout": timeout}
        declaration = declare(queue, name, consent=consent, when_landed=when_landed, **given)
        options: dict[str, Any] = {
            "effects": checked_effects(declaration, effects),
            "requires": checked_probes(requires),
        }

        def register(function: Callable[..., Any]) -> Handler:
            handler = Handler(function, declaration, self, input=input, soft=soft, **options)
            self._registry.add(handler)
            self._declared.changed()
            return handler

        return register

    # --- working

    def worker(
        self,
        queues: Sequence[str] | None = None,
        concurrency: int = SLOTS,
        *,
        grace: Seconds = GRACE,
        suspects: Sequence[str] | None = None,
    ) -> Worker:
        """Run jobs in this process: `async with sf.worker(): ...`. `concurrency` is slots per queue.

        `suspects` is the command that runs `run_suspects` in a process of its own, for jobs whose worker died while it
        ran them; without one, this worker runs them itself, each while it holds nothing else.
        """
        return self._new_worker(queues, concurrency, grace=grace, suspects=suspects)

    def _new_worker(
        self,
        queues: Sequence[str] | None,
        concurrency: int,
        *,
        grace: float,
        suspects: Sequence[str] | None = None,
        suspects_only: bool = False,
    ) -> Worker:
        self._store.check_not_closed()
        beside = [*self._alerting(), *self._subscribing()]
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
            ready=self._ready,
            queues=self._with_carrier(queues),
            concurrency=concurrency,
            grace=grace,
            suspects=suspects,
            suspects_only=suspects_only,
        )
        self._workers.add(made)
        return made

    def _with_carrier(self, queues: Sequence[str] | None) -> Sequence[str] | None:
        """Have a worker of named queues also serve the internal queues: no other worker may do so."""
        carriers = [each for each in (QUEUE, subscribers.QUEUE) if self._registry.find(each, each) is not None]
        return queues if queues is None else [*queues, *(each for each in carriers if each not in queues)]

    def _alerting(self) -> list[Loop]:
        """Give what finds alerts; where `[notify]` names surfaces, serve the queue that carries them out, too."""
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

    def _subscribing(self) -> list[Loop]:
        """Carry notices to those who subscribed, where `[notify]` names any."""
        if not self._notify.subscribers:
            return []
        if self._registry.find(subscribers.QUEUE, subscribers.QUEUE) is None:
            self._registry.add(subscribers.handler(self, self._notify, self._sender, self.clock, self._sinks))
            rules = self.settings.over(subscribers.QUEUE, delivery.RULES)
            self._declared.declare(subscribers.QUEUE, delivery.RULES, rules)
        return [Loop("subscriptions", subscribers.EVERY, self._subscriptions.carry)]

    @asynccontextmanager
    async def alerting(self) -> AsyncIterator[None]:
        """Look for alerts in a process that runs no jobs: `async with sf.alerting(): ...`. Workers do it by themselves.

        Somebody must look where no worker does: that there is none may be what is wrong. So where `[notify]` says whom
        to tell, what carries that out is a worker of its own here, for nothing else.
        """
        async with AsyncExitStack() as stack:
            if self._notify.speaks:
                await stack.enter_async_context(self.worker((), grace=delivery.GRACE))
            else:
                await self._look_alone(stack)
            yield

    async def _look_alone(self, stack: AsyncExitStack) -> None:
        """Look for alerts where no surface is configured, until the stack ends."""
        loops = self._alerting()
        await self._ready()
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
    ) -> None:
        """Work until signalled: the first SIGTERM or SIGINT drains, a second one exits at once."""
        where = settings.without_password(self.settings.url.value)
        make = partial(self.worker, queues, concurrency, grace=grace, suspects=suspects)
        asyncio.run(work_until_signalled(self, make, grace, where))

    def run_suspects(
        self, queues: Sequence[str] | None = None, *, parent: int, grace: Seconds = GRACE, tell: int | None = None
    ) -> None:
        """Run jobs whose worker died while it ran them, one at a time, until none is left or the parent is gone.

        `tell` is a pipe on which the parent hears that this process can run them.
        """
        make = partial(self._new_worker, queues, 1, grace=grace, suspects_only=True)
        asyncio.run(run_suspects_until_none(self, make, parent, tell))

    def outbox(self, connect: Connect, *, every: Seconds = RELAY_EVERY) -> Outbox:
        """Bring here what was enqueued with `tx=` in a database of yours; `connect` opens it, as `sqlite3` does.

        `async with sf.outbox(connect):` looks every so many seconds; `await outbox.relay()` looks once.
        """
        return Outbox(self._store, self._ready, connect, every)

    # --- life

    async def open(self) -> Self:
        """Open the store and publish what was declared; where jobs are spooled, it may still be away.

        The first use opens it, too; after `close` only this does.
        """
        self._store.reopen()
        await self._reception.open()
        return self

    async def close(self) -> None:
        """Drain what still works here, and let go of the store and of receivers.

        Whatever is called afterwards raises `StoreClosed`, until `open` or `async with` opens it again.
        """
        await drain_all(self._workers)
        await self._callers.close()
        await self._journals.close()
        await self._sender.close()
        await run_in_thread(self._reception.close)
        await self._fallbacks.tell()
        await run_in_thread(self._store.close)
        self._declared.forget()

    async def __aenter__(self) -> Self:
        """Open."""
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()


_default: list[Standfast] = []
_making_default = ForkableLock()


def default() -> Standfast:
    """Give the process-wide queue, made on first use from the environment and `standfast.toml`."""
    with _making_default:
        if not _default:
            _default.append(Standfast())
        return _default[0]

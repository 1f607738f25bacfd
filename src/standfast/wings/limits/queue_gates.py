"""Asks the gates of queues before their jobs start: outside any transaction, and not more often than needed."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from standfast.concurrency.threads import run_in_thread, with_timeout
from standfast.concurrency.user_code import in_own_task
from standfast.failure.retry_after import requested_wait
from standfast.redact import redacted_text
from standfast.rules import FUNCTION
from standfast.wings.http.words import Reply
from standfast.wings.limits import answers as admission
from standfast.wings.limits.answers import GateAnswer
from standfast.wings.limits.words import Closing

log = logging.getLogger("standfast.worker")

WITHIN = 10.0
"""Seconds a gate has to answer; a late answer does not count."""

Gate = Callable[..., Any]
Ask = Callable[[str, float], Awaitable[Reply]]


class QueueGates:
    """The last answers of the gates of a worker's queues. `functions` are the gates in this process, by queue."""

    def __init__(self, functions: Mapping[str, Gate], ask: Ask) -> None:
        self._functions = functions
        self._ask = ask
        self.gates: dict[str, str] = {}
        self._answers: dict[str, tuple[GateAnswer, float]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._unanswered: set[str] = set()
        """The queues whose plain function is being called, each on a thread of its own."""
        self.refusals = 0
        """How often a gate could not be asked, or gave an unreadable answer."""

    def learn(self, queue: str, gate: str | None) -> None:
        """Note the gate that a queue's rules in force name."""
        if gate is None:
            self.gates.pop(queue, None)
        elif self.gates.get(queue) != gate:
            self.gates[queue] = gate
            self._answers.pop(queue, None)

    def answer(self, queue: str) -> Literal["open"] | Closing | None:
        """Return what a queue's gate said, while that holds; None if it must be asked, or there is no gate."""
        answer, until = self._answers.get(queue, (None, 0.0))
        return answer.admission if answer and asyncio.get_running_loop().time() < until else None

    def must_ask(self, queue: str) -> bool:
        """Return whether a queue has a gate whose answer no longer holds."""
        return queue in self.gates and self.answer(queue) is None

    def ask(self, queue: str, then: Callable[[float], None]) -> None:
        """Ask a queue's gate, unless that is under way; call `then` with the seconds until the queue's next look."""
        if queue not in self._asking:
            task = asyncio.get_running_loop().create_task(self.ask_now(queue))
            self._asking[queue] = task
            task.add_done_callback(lambda done: self._done(queue, done, then))

    def _done(self, queue: str, done: asyncio.Task[None], then: Callable[[float], None]) -> None:
        del self._asking[queue]
        if done.cancelled():
            return
        then(0.0)
        answer, _ = self._answers[queue]
        if answer.admission != "open":
            then(answer.holds)

    async def ask_now(self, queue: str) -> None:
        """Ask a queue's gate and remember its answer."""
        answer = await self._say(queue, self.gates[queue])
        if isinstance(answer.admission, Closing) and answer.admission.broken:
            self.refusals += 1
            if self._answers.get(queue, (None, 0.0))[0] != answer:  # once for each reason
                why = redacted_text(answer.admission.why)
                log.warning("the gate of queue %s counts as closed: %s", queue, why, extra={"queue": queue})
        self._answers[queue] = (answer, asyncio.get_running_loop().time() + answer.holds)

    async def _say(self, queue: str, gate: str) -> GateAnswer:
        if gate.startswith(FUNCTION) and queue not in self._functions:
            return admission.of_absence()
        question = self._call(queue) if gate.startswith(FUNCTION) else self._get(gate)
        [answer] = await asyncio.gather(with_timeout(in_own_task(question), WITHIN), return_exceptions=True)
        return admission.of_trouble(answer) if isinstance(answer, BaseException) else answer

    async def _get(self, url: str) -> GateAnswer:
        reply = await self._ask(url, WITHIN)
        return admission.of_reply(reply.status, requested_wait(lambda name: reply.headers.get(name.lower())))

    async def _call(self, queue: str) -> GateAnswer:
        """Call a gate's function, in a thread if it is a plain one; it may take the queue's name."""
        gate = self._functions[queue]
        given = (queue,) if _takes_one(gate) else ()
        if inspect.iscoroutinefunction(gate) or inspect.iscoroutinefunction(getattr(gate, "__call__", None)):  # noqa: B004
            return admission.of_answer(await gate(*given))
        if queue in self._unanswered:  # a thread cannot be stopped, and one hanging thread is enough
            raise TimeoutError("it has not answered the last question yet")
        answer = await run_in_thread(self._called, queue, gate, given)
        return admission.of_answer(await answer if inspect.isawaitable(answer) else answer)

    def _called(self, queue: str, gate: Gate, given: tuple[str, ...]) -> Any:
        self._unanswered.add(queue)
        try:
            return gate(*given)
        finally:
            self._unanswered.discard(queue)

    async def stop(self) -> None:
        """Cancel the questions under way."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _takes_one(gate: Gate) -> bool:
    try:
        inspect.signature(gate).bind("queue")
    except (TypeError, ValueError):
        return False
    return True

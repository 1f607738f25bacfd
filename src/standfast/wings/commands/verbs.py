"""Commands: programs that do a queue's work, judged by their exit codes and by what their postcondition sees.

A launched program is not done. Its process is recorded in the ledger before its first instruction (as the receipt of
an effect that is begun), and its outcome after its end. When its worker dies, the next attempt on the same machine
finds the process. If it runs, the attempt waits for it; if it is over, the attempt looks, or leaves it to a person.
"""

from __future__ import annotations

import asyncio
import errno
import time
from contextlib import suppress
from typing import Any

import msgspec

from standfast.concurrency.threads import run_in_thread, with_timeout
from standfast.errors import ConfigurationError, Permanent, StandfastError, Transient, Uncertain
from standfast.failure import Class, Failure, Landed, Verdict, reason
from standfast.outcome import Failed, Snooze
from standfast.portable import CAN_RUN_CHILDREN, KILL
from standfast.printable import printable
from standfast.redact import redacted_text
from standfast.rules import QueueRules
from standfast.spine.registry import Declaration, Handler, Registry
from standfast.telemetry import current
from standfast.typed.door import Door
from standfast.wings.commands.orphans import Identity, Orphan, Whereabouts, end_leftovers, process_state
from standfast.wings.commands.process import Exit, NotStarted, Output, Process
from standfast.wings.commands.program import Command, filled, read
from standfast.wings.effects.handler_job import Job
from standfast.wings.effects.templates import CannotTell
from standfast.wings.effects.words import Effect, EffectToVerify
from standfast.wings.http.sender import Sender

EFFECT = "command"
"""The name of a command's effect in the ledger."""
LONGEST_QUOTE = 500
"""How many characters at the end of a program's output a failure's message quotes."""
KILLED = -KILL
PASSING = frozenset({"EAGAIN", "ENOMEM", "ENFILE", "EMFILE", "ETXTBSY", "EINTR", "EIO", "ENOSPC"})
"""Errors that may keep a program from starting now, but not for good."""


class Commands:
    """The programs of the settings file, and the queues whose work they do."""

    def __init__(self, given: dict[str, dict[str, Any]], registry: Registry, door: Door) -> None:
        self._commands = {name: read(name, table) for name, table in given.items()}
        self._registry = registry
        self._door = door

    def serve(self, queue: str, rules: QueueRules) -> None:
        """Register the command that a queue's rules name, if they name one."""
        if rules.command is None:
            return
        command = self._commands.get(rules.command)
        if command is None:
            raise ConfigurationError(
                f"queue {queue!r}: no command is called {rules.command!r}; write [commands.{rules.command}] with its "
                f"argv into standfast.toml; there are {', '.join(self._commands) or 'none'}"
            )
        if not CAN_RUN_CHILDREN:
            raise ConfigurationError(
                f"queue {queue!r}: commands need process groups, which this system does not have; run this queue's "
                "worker on Linux or macOS, and name the command in the settings there"
            )
        if rules.coalesce == "collect":
            raise ConfigurationError(f"queue {queue!r}: a command takes one payload, and coalesce='collect' gives many")
        known = self._registry.find(queue, queue)
        if known is None or known.input != PayloadCheck(command):  # a queue may be declared twice
            self._registry.add(_handler(queue, command, self._door))


def _handler(queue: str, command: Command, door: Door) -> Handler:
    ours: dict[str, Any] = {"replay_mode": command.replay, "timeout": command.seconds, "when_landed": "complete"}
    declaration = Declaration(queue=queue, name=queue, **ours)
    runner = Runner(command)
    return Handler(
        runner.run, declaration, door, input=PayloadCheck(command), soft=False, effects=[CommandEffect(command)]
    )


class PayloadCheck(msgspec.Struct, frozen=True):
    """The `input` of a command's handler: a payload fits if the arguments can be filled from it."""

    command: Command

    def model_validate_json(self, text: str | bytes) -> Any:
        """Refuse a payload that does not fit, before it is run and, where the command is known, before it is stored."""
        payload = msgspec.json.decode(text)
        for template in (self.command.argv, self.command.postcondition):
            filled(template, payload, "")
        return payload


class CommandEffect(Effect):
    """What a command does to the world: checked by its postcondition, and by what became of its process."""

    def __init__(self, command: Command) -> None:
        super().__init__(EFFECT, timeout=command.looking + command.patience + 1)
        self._command = command

    @property
    def verifiable(self) -> bool:
        """Always true: even without a postcondition, a process that still runs can be seen."""
        return True

    async def look(self, job: Job, effect: EffectToVerify, sender: Sender) -> Verdict:
        """Return whether it landed. A process that still runs has not: the attempt that follows waits for it."""
        del sender
        known = identity(effect.receipt) if effect.begun else None
        where: Whereabouts | None = None if known is None else process_state(known)
        if where == "runs":
            return Verdict.ABSENT
        seen = await postcondition(self._command, job) if self._command.postcondition else None
        if seen == Verdict.VERIFIED or known is None or effect.asked or self._command.replay == "replay":
            return seen or Verdict.ABSENT
        if where == "elsewhere":
            raise CannotTell(f"it was launched as process {known.pid} on {known.host}, where it may still run")
        if seen is None:
            how = "its end was not seen" if known.exit_code is None else f"with {_exit_text(known.exit_code)}"
            raise CannotTell(
                f"process {known.pid} on {known.host} is over, {how}, and its command has no postcondition"
            )
        return seen


class Runner:
    """Runs a command for jobs."""

    def __init__(self, command: Command) -> None:
        self._command = command

    async def run(self, job: Job) -> dict[str, Any] | Snooze | Failed:
        """Launch the program and follow it to its end; or follow what an earlier attempt launched, if it still runs."""
        entry = job.ledger.state_of(EFFECT)
        if entry is not None and job.ledger.is_there(EFFECT):
            if entry.state != "done":
                await job.ledger.write(job.ledger.done(EFFECT, entry.receipt))
            return {"exit_code": None, "found": True}
        known = identity(entry.receipt and msgspec.json.decode(entry.receipt)) if entry is not None else None
        if known is not None and process_state(known) == "runs":
            return await self._adopted(job, known)
        if known is not None:
            await run_in_thread(end_leftovers, known, f"STANDFAST_JOB_ID={job.id}")
        ended = await self._launched(job, clean=entry is None)
        return ended if isinstance(ended, Snooze) else await self._checked(job, ended)

    async def _launched(self, job: Job, *, clean: bool) -> dict[str, Any] | Snooze:
        """Run the program; return what is kept of a success. A run without an effect leaves no intent in the ledger."""
        begun = time.monotonic()
        try:
            ended = await self._followed(job)
        except NotStarted as error:
            if clean:
                await job.ledger.write(job.ledger.nothing(EFFECT))
            raise _not_started(error) from error
        meaning, wait = self._command.ending(ended.code)
        if meaning == "completed":
            return _result(ended, time.monotonic() - begun)
        if clean and meaning != "uncertain":
            await job.ledger.write(job.ledger.nothing(EFFECT))
        if meaning == "snooze":
            return Snooze(wait)
        kind, failure = _kind(ended.code), {"transient": Transient, "permanent": Permanent}.get(meaning, Uncertain)
        raise failure(_describe(ended), error_kind=kind)

    async def _followed(self, job: Job) -> Exit:
        """Record what is about to run, then run it."""
        before = job.ledger.state_of(EFFECT)  # what is known of an earlier process stays until this one is known
        await job.ledger.write(job.ledger.intent(EFFECT, None if before is None else before.receipt))
        command = self._command
        async with Process(
            filled(command.argv, job.payload, job.id),
            environment(command, job),
            cwd=command.cwd,
            stdin=msgspec.json.encode(job.payload) if command.stdin == "payload" else None,
            cap=command.output_cap,
            grace=command.patience,
        ) as process:
            await _note(job, process.identity)
            try:
                ended = await process.run()
            except asyncio.CancelledError:
                await process.end()
                with suppress(StandfastError):  # it is over: the next attempt only has less to go by
                    await _note(job, process.identity, KILLED)
                raise
            if command.ending(ended.code)[0] == "uncertain":
                await _note(job, process.identity, ended.code)
            return ended

    async def _adopted(self, job: Job, known: Identity) -> dict[str, Any] | Failed:
        """Follow what an earlier attempt launched. Its exit code was lost with its worker: only a look can tell."""
        await _note(job, known)  # as it stands, so that it is this attempt's: a trace that another one takes is history
        await _note(job, msgspec.structs.replace(known, adopted=True))
        async with Orphan(known, self._command.patience) as orphan:
            await orphan.over()
        if not self._command.postcondition:
            raise Uncertain(
                f"process {known.pid} was launched by an earlier attempt and is over now; its exit code is not known",
                reason_code="unknown_commit_state",
            )
        return await self._checked(job, {"exit_code": None, "adopted": True})

    async def _checked(self, job: Job, result: dict[str, Any]) -> dict[str, Any] | Failed:
        """Accept a success once the postcondition sees it, and keep its receipt."""
        if self._command.postcondition:
            try:
                seen = await postcondition(self._command, job)
            except CannotTell as error:
                return _unverified(str(error), Class.UNKNOWN)
            if seen != Verdict.VERIFIED:
                return _unverified("its postcondition does not find what it should have done", Class.TRANSIENT)
        receipt = msgspec.json.encode({"exit_code": result["exit_code"]}).decode()
        await job.ledger.write(job.ledger.done(EFFECT, receipt))
        return result


async def _note(job: Job, process: Identity, code: int | None = None) -> None:
    """Record which process the begun effect is, and how that process ended."""
    trace = msgspec.json.encode(msgspec.structs.replace(process, exit_code=code)).decode()
    await job.ledger.write(job.ledger.intent(EFFECT, trace))


async def postcondition(command: Command, job: Job) -> Verdict:
    """Check whether the effect is there; raise CannotTell if that is unknown."""
    argv = filled(command.postcondition, job.payload, job.id)
    try:
        async with Process(
            argv, environment(command, job), cwd=command.cwd, cap=LONGEST_QUOTE, grace=command.patience
        ) as process:
            ended = await with_timeout(process.run(), command.looking)
    except TimeoutError:
        raise CannotTell(f"its postcondition took longer than {command.looking:g} s") from None
    except NotStarted as error:
        raise CannotTell(f"its postcondition could not be started: {error.strerror or error}") from error
    if ended.code in {0, *command.postcondition_absent}:
        return Verdict.ABSENT if ended.code else Verdict.VERIFIED
    raise CannotTell(f"its postcondition could not decide: {_describe(ended)}")


def environment(command: Command, job: Job) -> dict[str, str]:
    """Return the environment of a program, with variables that name its job, and its trace if there is one."""
    traceparent = current()
    return command.environment(
        {
            **({} if traceparent is None else {"TRACEPARENT": traceparent}),
            "STANDFAST_JOB_ID": job.id,
            "STANDFAST_QUEUE": job.queue,
            "STANDFAST_ATTEMPT": str(job.attempt),
            "STANDFAST_FENCE": str(job.token),
            "STANDFAST_IDEMPOTENCY_KEY": job.idempotency_key,
        }
    )


def identity(receipt: Any) -> Identity | None:
    """Read which process an effect that was begun is; None if the program was never started."""
    try:
        return msgspec.convert(receipt, Identity)
    except msgspec.ValidationError:
        return None


def _not_started(error: NotStarted) -> Transient | Permanent:
    """Judge what kept a program from starting: certainly nothing of it ran."""
    kind = errno.errorcode.get(error.errno or 0, "OSError")
    message = f"it could not be started: {error.strerror or error}: {error.filename or ''}".rstrip(": ")
    if kind in PASSING:
        return Transient(message, error_kind=kind)
    if kind == "E2BIG":
        return Permanent(message, reason_code="argument_too_long", error_kind=kind)
    return Permanent(message, reason_code="handler_missing", error_kind=kind)


def _unverified(message: str, cls: Class) -> Failed:
    """Judge a program that says it is done, although its postcondition does not confirm it."""
    advice = reason("unverified").advice
    failure = Failure(cls=cls, landed=Landed.MAYBE, reason_code="unverified", message=message, advice=advice)
    return Failed(failure, said=True)


def _kind(code: int) -> str:
    return f"exit_{code}" if code >= 0 else f"signal_{-code}"


def _exit_text(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _describe(ended: Exit) -> str:
    """Say how a program ended, with the end of its output."""
    how = _exit_text(ended.code)
    words = _words(ended.stderr).strip() or _words(ended.stdout).strip()
    return f"{how}: {printable(words[-LONGEST_QUOTE:])}" if words else how


def _result(ended: Exit, took: float) -> dict[str, Any]:
    """Return what is stored of a success."""
    result = {
        "exit_code": ended.code,
        "stdout": _words(ended.stdout),
        "stderr": _words(ended.stderr),
        "seconds": round(took, 3),
    }
    return {**result, "_truncated": True} if ended.stdout.cut or ended.stderr.cut else result


def _words(output: Output) -> str:
    """Return an output as text without secrets. Half a secret is not recognised: a line that was cut is dropped."""
    text = output.kept.decode(errors="replace").replace("\0", "\ufffd")
    whole = text.partition("\n")[2] if output.cut and "\n" in text else text
    return redacted_text(whole, longest=len(whole))

"""What `sf.sync` looks like to editors and type checkers.

Do not edit it; `python -m tests.typing.sync_stub > src/standfast/typed/sync.pyi` writes it.
"""

import builtins
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, Unpack, overload

from standfast.errors import StandfastError
from standfast.job import Receipt
from standfast.rules import Seconds
from standfast.spine.ids import JobId
from standfast.spine.registry import Handler
from standfast.typed.door import R, T
from standfast.typed.job_options import (
    Ages,
    BulkOptions,
    Duration,
    EnqueueManyOptions,
    EnqueueOptions,
    JobOptions,
    Keys,
    Otherwise,
    RunOptions,
    ScheduleOptions,
    StepOptions,
    SubmitOptions,
    When,
)
from standfast.typed.letter_options import LetterFilter
from standfast.typed.reply import Reply
from standfast.views import Heard, JobView
from standfast.wings.access.words import Reach
from standfast.wings.approvals.verbs import Listed
from standfast.wings.audit.verbs import Decisions
from standfast.wings.consent.verbs import Grants
from standfast.wings.consent.words import Mode
from standfast.wings.health.measures import Measures
from standfast.wings.imports.known_shapes import Profile
from standfast.wings.imports.words import ImportOptions, Report, Source
from standfast.wings.letters.letter_export import Place
from standfast.wings.letters.verbs import Groups
from standfast.wings.limits.probes import Probe
from standfast.wings.notices.words import Notice
from standfast.wings.queues.card_scripts import PublishedHandler
from standfast.wings.records.view import Page
from standfast.wings.relay.outbox import Connect
from standfast.wings.schedules.rules import Missed
from standfast.wings.workflows.verbs import After, Found, Step, TypedDictT

class Sync:
    """Every awaited verb as a plain call."""

    def enqueue(
        self,
        queue: str,
        payload: Any = None,
        *,
        handler: str | None = None,
        otherwise: Otherwise | None = None,
        tx: Any = None,
        **options: Unpack[JobOptions],
    ) -> Receipt:
        """Store one job; it is on disk when this returns.

        `otherwise` is called without arguments instead when for certain nothing can be stored now: the store is away,
        the queue or the disk is full. `tx` is a connection of yours with a transaction open, and the job is there
        exactly if you commit it: to the store's own PostgreSQL (psycopg, asyncpg, SQLAlchemy, Django), or to any
        SQLite database (`sqlite3`, SQLAlchemy, Django), where it is written to an outbox, and is a job once
        `sf.outbox(...)` brought it here.

        Every job takes, too: `idempotency_key`, a name for this work, of which a second one is a `duplicate`;
        `thread_key`, whose jobs run one at a time, in order; `coalesce`, what becomes of one of them that still waits
        (`"never"`, `"latest"`, `"collect"`); `priority`, higher first; `delay` or `at`, when it may start; `expires`,
        until when; `attempts` and `lease`, in place of the queue's; `session` and `requester`, who asks; `risk` and
        `labels`, for policies and for people who look; `first_seen_at`, since when it is wanted. `handler` names the
        one that does it, where that is not the queue's.
        """

    def enqueue_http(
        self,
        queue: str,
        method: str,
        url: str,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: Seconds | str | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> Receipt:
        """Store one HTTP request that a worker will send; it is on disk when this returns.

        The body is sent as JSON, or as it stands if it is text and `headers` name its content type. Without an
        idempotency key, a POST or PATCH that may have arrived is not sent again: it dies as `unknown_commit_state`.
        """

    def enqueue_many(
        self,
        queue: str,
        payloads: Iterable[Any],
        *,
        handler: str | None = None,
        keys: Keys | None = None,
        first_seen_at: Ages | None = None,
        otherwise: Otherwise | None = None,
        tx: Any = None,
        **options: Unpack[BulkOptions],
    ) -> list[Receipt]:
        """Store several jobs in one transaction, or in yours: all of them, or none. Receipts come in their order.

        `keys` gives each job its own idempotency key: a list, or a function of the payload; None is no key. What is
        here already is a `duplicate`, so that the same call can be made again. A key that belongs to another payload is
        an `IdempotencyConflict`, and then nothing is stored. `first_seen_at` keeps the age of what waited elsewhere,
        in the same ways, or one moment for all. `otherwise` is called once, for all of them.
        """

    def enqueue_each(self, jobs: Iterable[Mapping[str, Any]]) -> list[Receipt | StandfastError]:
        """Store jobs of any queues together; each is answered by itself, with its receipt or with the error.

        A job is a dict of what `enqueue` takes: `queue`, `payload` and options; or `http` instead of `payload`, a dict
        of what `enqueue_http` takes. Those that are refused keep no other out. What has a receipt is on disk.
        """

    def ingest(
        self,
        queue: str,
        payload: Any = None,
        *,
        handler: str | None = None,
        body_key: str | None = None,
        newest_counts: bool = False,
        **options: Unpack[JobOptions],
    ) -> Receipt:
        """Store one job that came from outside; it is on disk when this returns.

        Where `enqueue` refuses a payload that does not fit its handler, this takes it: it dies as `schema_invalid` at
        its first claim, where operators here see it. `body_key` is a second key beside `idempotency_key`: what has
        either is a duplicate. With `newest_counts` it folds into a waiting job of its thread, if its queue does not
        collect.
        """

    @overload
    def run(self, handler: Handler[None, R], params: None = None, **options: Unpack[RunOptions]) -> Reply[R]:
        """Call a handler here and now. The call is on disk before it starts, and survives this process.

        `handler` is a handler of yours, `"queue/handler"`, the name of a queue with one handler, or a handler's name
        that is the only one. It starts under the same rules as in a worker: where it may not, the Reply is `queued`
        and says why. A failure that may pass puts it into the queue, for workers to go on with. The same
        `idempotency_key` gives the stored result, or where it stands, and never calls twice. Where this process does
        not have the handler, the call is queued and waited for; where no process ever published it, it is refused
        with `UnknownHandler`, and nothing is written.
        A handler of yours that says what it returns gives a Reply whose `result` is of that type; by name it is JSON.
        """

    @overload
    def run(self, handler: Handler[T, R], params: T, **options: Unpack[RunOptions]) -> Reply[R]: ...
    @overload
    def run(self, handler: str, params: Any = None, **options: Unpack[RunOptions]) -> Reply[Any]: ...
    @overload
    def submit(self, handler: Handler[None, R], params: None = None, **options: Unpack[SubmitOptions]) -> Reply[R]:
        """Have a worker call a handler, once; the Reply comes at once, `queued`, with the id to ask by."""

    @overload
    def submit(self, handler: Handler[T, R], params: T, **options: Unpack[SubmitOptions]) -> Reply[R]: ...
    @overload
    def submit(self, handler: str, params: Any = None, **options: Unpack[SubmitOptions]) -> Reply[Any]: ...
    def hand_over(
        self,
        handler: Handler | str,
        params: Any,
        error: Any,
        *,
        session: str | None = None,
        idempotency_key: str | None = None,
        requester: str | None = None,
    ) -> Reply[Any]:
        """Take over a call that failed already, outside: the attempt counts, and the queue goes on from there.

        `error` is the exception, the result that tells of the failure, or a text. What may pass is queued with its
        backoff, unless the handler is `manual`; what may not, or must not be repeated, is a letter for a person. The
        same `idempotency_key` takes a call over once, however often it is handed over: the Reply says where it stands.
        """

    def workflow(self, name: str) -> SyncWorkflow:
        """Begin to write down a workflow: add its steps with `step`, then `await start()`."""

    def worker(
        self,
        queues: Sequence[str] | None = None,
        concurrency: int = ...,
        *,
        grace: Seconds = ...,
        suspects: Sequence[str] | None = None,
        total: int | None = None,
    ) -> SyncWorker:
        """Run jobs in this process: `async with sf.worker(): ...`. `concurrency` is slots per queue.

        `total` limits the slots over all queues, too; while they are few, queues take turns.
        `suspects` is the command that runs `run_suspects` in a process of its own, for jobs whose worker died while it
        ran them; without one, this worker runs them itself, each while it holds nothing else.
        """

    def outbox(self, connect: Connect, *, every: Seconds = ..., with_workers: bool = False) -> SyncOutbox:
        """Bring here what was enqueued with `tx=` in a database of yours; `connect` opens it, as `sqlite3` does.

        `async with sf.outbox(connect):` looks every so many seconds; `await outbox.relay()` looks once. Said once
        where your handlers are, `sf.outbox(connect, with_workers=True)` has every worker look as long as it runs.
        """

    def alerting(self) -> AbstractContextManager[None]:
        """Look for alerts in a process that runs no jobs: `async with sf.alerting(): ...`. Workers do it by themselves.

        Somebody must look where no worker does: that there is none may be what is wrong. So where `[notify]` says whom
        to tell, what carries that out is a worker of its own here, for nothing else.
        """

    def open(self) -> Sync:
        """Open the store and publish what was declared; where jobs are spooled, it may still be away.

        The first use opens it, too; after `close` only this does.
        """

    def close(self) -> None:
        """Drain what still works here, and let go of the store and of receivers.

        Whatever is called afterwards raises `StoreClosed`, until `open` or `async with` opens it again.
        """

    def status(self, id: JobId) -> JobView | None:
        """Look at a job; looking changes nothing."""

    def wait(self, id: JobId, timeout: Seconds) -> JobView:
        """Wait until a job is settled: final, held, or dead with nothing left that happens by itself."""

    def result(self, id: JobId, key: str | None = None) -> Any:
        """Give a job's whole result, or one key of it; a job that is not done has none."""

    def explain(self, id: JobId) -> str:
        """Say in one sentence, with evidence, why a job is where it is."""

    def jobs(
        self,
        *,
        queue: str | None = None,
        handler: str | None = None,
        state: str | None = None,
        view: str | None = None,
        reason_code: str | None = None,
        error_kind: str | None = None,
        thread_key: str | None = None,
        session: str | None = None,
        label: str | None = None,
        possible_duplicate: bool | None = None,
        q: str | None = None,
        limit: int = 50,
        cursor: int | None = None,
        reach: Reach = ...,
    ) -> Page:
        """List jobs, newest first; the page's `next_cursor` leads to the older ones.

        `label` is `name` or `name:value`. `q` is looked for, as it is written, in ids, handlers, keys, payloads and
        failures. `possible_duplicate` chooses jobs that may have had their effect twice, or with False the others.
        """

    def retry(
        self,
        id: JobId,
        *,
        probe: Probe | None = None,
        timeout: Seconds = ...,
        by: str | None = None,
        session: str | None = None,
    ) -> Reply[Any]:
        """Run a job again as soon as possible: a waiting one now, a letter by replay. A running one is left alone.

        With `probe`, a function or a URL, once that says yes (True, or 2xx); if it does not within `timeout`,
        not at all, and the Reply says why as `probe`. Only this call waits; nothing of the waiting is stored.
        `by` is who asks, where that is not the session, else the operating system's user. With `session`, an agent
        asks: a letter that is `manual` or may have landed then waits for a person's approval.
        """

    def cancel(self, id: JobId, *, by: str | None = None) -> JobView:
        """End a job that is no longer wanted. A running one is asked, and ends cancelled unless it succeeds.

        `by` is who asks, where that is not the operating system's user; the job's history keeps it.
        """

    def stats(self) -> dict[str, Any]:
        """Show counts: what the store has now, and what happened so far."""

    def workers(self) -> list[dict[str, Any]]:
        """Give every live worker, the oldest first: where it is, what it serves, and what it runs now."""

    def health(self) -> dict[str, Any]:
        """Judge the store by what it holds; while it is away, by what waits for it on this host."""

    def ready(self) -> None:
        """Return if work is taken right now: the store answers, is not in trouble and has room. Else raise why."""

    def measures(self) -> Measures:
        """Measure everything, for `/metrics`; while the store is away, what waits for it on this host."""

    def subscribe(
        self, kinds: Collection[str] | None = None, queue: str | None = None, after: int | None = None
    ) -> Iterator[Notice]:
        """Give notices of what happens to jobs, in commit order, from every process; `after` resumes behind a `seq`."""

    def doctor(self, *, full: bool = False) -> dict[str, Any]:
        """Examine the store, also one that cannot be opened; one that is not there yet is not created.

        It is read once as a whole; `full` also compares every index with its table, which takes longer.
        """

    def migrate(self) -> tuple[int, int]:
        """Bring the store's schema forward, as every opening does; give its number before and after."""

    def backup(self, path: str | Path) -> dict[str, Any]:
        """Copy the store to a new file while work goes on, verified when this returns; tell what the copy holds."""

    @property
    def alerts(self) -> SyncAlerts: ...
    @property
    def approvals(self) -> SyncApprovals: ...
    @property
    def audit(self) -> SyncAudit: ...
    @property
    def consent(self) -> SyncConsent: ...
    @property
    def dead_letters(self) -> SyncDeadLetters: ...
    @property
    def imports(self) -> SyncImports: ...
    @property
    def inbox(self) -> SyncInbox: ...
    @property
    def policy(self) -> SyncPolicies: ...
    @property
    def queues(self) -> SyncQueues: ...
    @property
    def schedules(self) -> SyncSchedules: ...
    @property
    def tokens(self) -> SyncTokens: ...
    @property
    def workflows(self) -> SyncWorkflows: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def __init__(self, target: Any) -> None: ...

class SyncHandler(Generic[T, R]):
    """The verbs of `handler` as plain calls."""

    @overload
    def enqueue(self: SyncHandler[None, R], payload: None = None, **options: Unpack[EnqueueOptions]) -> Receipt:
        """Enqueue a job for this handler; it is on disk when this returns. `sf.enqueue` says what the options mean."""

    @overload
    def enqueue(self, payload: T, **options: Unpack[EnqueueOptions]) -> Receipt: ...
    def enqueue_many(self, payloads: Iterable[T], **options: Unpack[EnqueueManyOptions]) -> list[Receipt]:
        """Enqueue several jobs for this handler in one transaction; `keys=` gives each its own key."""

    @overload
    def run(self: SyncHandler[None, R], payload: None = None, **options: Unpack[RunOptions]) -> Reply[R]:
        """Call this handler here and now, recorded before it is called; the Reply says what came of it."""

    @overload
    def run(self, payload: T, **options: Unpack[RunOptions]) -> Reply[R]: ...
    @overload
    def submit(self: SyncHandler[None, R], payload: None = None, **options: Unpack[SubmitOptions]) -> Reply[R]:
        """Have a worker call this handler, once; the Reply comes at once and says that it is not done."""

    @overload
    def submit(self, payload: T, **options: Unpack[SubmitOptions]) -> Reply[R]: ...
    @property
    def name(self) -> str: ...
    @property
    def queue(self) -> str: ...
    def __init__(self, target: Any) -> None: ...

class SyncWorker:
    """The verbs of `worker` as plain calls."""

    def drain(self) -> None:
        """Claim no more, let what runs end or give it back, and leave. Calling it again waits for the same end.

        A caller that is cancelled stops waiting; the worker leaves all the same.
        """

    def run_due(self, at_once: int | None = None) -> Counter[str]:
        """Run what is due, repeats included, until nothing is, and stop: no timers, no waiting. For tests.

        With `at_once=1` each queue runs its jobs one after the other, by priority.
        """

    @property
    def id(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def __init__(self, target: Any) -> None: ...

class SyncOutbox:
    """The verbs of `outbox` as plain calls."""

    def relay(self) -> int:
        """Hand over every committed job; return how many left the outbox."""

    def close(self) -> None:
        """Stop relaying, and close the connection."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def __init__(self, target: Any) -> None: ...

class SyncAlerts:
    """The verbs of `alerts` as plain calls."""

    def list(self) -> builtins.list[dict[str, Any]]:
        """List open alerts, the most harmful first, each with its present values."""

    def __init__(self, target: Any) -> None: ...

class SyncImports:
    """The verbs of `imports` as plain calls."""

    def bring_in(
        self,
        source: Source,
        profile: Profile,
        options: ImportOptions | None = None,
        *,
        by: str,
        reason: str | None = None,
        progress: Heard = ...,
    ) -> Report:
        """Read a source, and store each record that is not here yet. `dry_run` stores nothing, and counts the same."""

    def __init__(self, target: Any) -> None: ...

class SyncQueues:
    """The verbs of `queues` as plain calls."""

    def list(self) -> builtins.list[str]:
        """Return the names of every queue that was declared or used."""

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return every queue with its rules in force, what it holds, and how many live workers serve it."""

    def pause(self, name: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Claim nothing more from a queue; running jobs continue. `by` defaults to the user of this process."""

    def resume(self, name: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Resume a paused queue."""

    def handlers(self) -> Sequence[PublishedHandler]:
        """Return every handler that a process ever published, with what agents are told about it."""

    def try_now(self, dependency: str) -> bool:
        """Let one job try a dependency that has not answered, before its breaker would; return whether any waited."""

    def __init__(self, target: Any) -> None: ...

class SyncDeadLetters:
    """The verbs of `dead_letters` as plain calls."""

    def list(
        self,
        filter: LetterFilter | None = None,
        *,
        limit: int = 50,
        cursor: int | None = None,
        queues: Sequence[str] | None = None,
    ) -> Page:
        """List letters, newest first; the page's `next_cursor` leads to the older ones. With `queues`, those of these.

        One that had to skip many ends early: it may be short, even empty, and still have a `next_cursor`.
        """

    def get(self, id: str) -> JobView:
        """Give one letter, whole."""

    def groups(self, filter: LetterFilter | None = None) -> Groups:
        """Group letters by cause, the largest group first: `count`, `sample`, `first_seen`, `last_seen`.

        `fingerprint` is also a filter: one plan, purge or export for the whole group. `regressed` counts letters that
        were replayed and stopped of the same again.
        """

    def replay(self, id: str, *, by: str, reason: str | None = None, session: str | None = None) -> dict[str, Any]:
        """Put a letter back to work: same id, key and payload, in a new round. Concurrent requests replay it once.

        First it is looked whether it has landed, then the policy is asked. It is `resolved` at once if its handler is
        registered here and every effect is there; else, if the policy allows it, it is `replayed`, and the worker looks
        before it runs. One that waits for consent is not replayed: the answer is `consent_required`, with what to do.
        With `session`, an agent asks: a `manual` letter, or one that may have landed, then waits for a
        person's approval whatever the policy allows, and one in quarantine, or refused consent, is `denied`.
        """

    def amend(self, id: str, payload: Any, *, by: str, reason: str) -> JobView:
        """Change a letter's payload, the only way to. It passes every check a new one would; nothing runs by itself.

        The job keeps its id, and its old key still answers with it; receivers get the key of a new generation.
        Approvals of the old payload are void. Raises NotVerified while an effect may exist that is not recorded: after
        the change, its check would look for another key. `resolve` checks it.
        """

    def resolve(self, id: str, *, by: str, reason: str, result: Any = ...) -> JobView:
        """End a letter whose effect is there: its checks are asked, or, with `result=`, it is your word.

        Raises NotVerified if a check says that an effect is missing, or cannot tell; the letter stays as it is.
        """

    def discard(self, id: str, *, by: str, reason: str) -> JobView:
        """End a letter that is no longer wanted: it is cancelled, and pruned like what is finished."""

    def quarantine(self, id: str, *, by: str, reason: str, owner: str | None = None) -> JobView:
        """Set a letter apart for its `owner` to look at: nothing replays it by itself, and its approvals are void."""

    def purge(
        self,
        filter: LetterFilter | None = None,
        *,
        by: str,
        reason: str | None = None,
        confirm: int | None = None,
        progress: Heard = ...,
    ) -> dict[str, int]:
        """Delete dead and discarded letters for good; held ones stay. Unless `confirm` is how many match, none goes.

        A `reason` is required only with `confirm`. More than a thousand go in several transactions; `progress` is told
        how far it is.
        """

    def export(
        self,
        to: Place,
        filter: LetterFilter | None = None,
        *,
        by: str | None = None,
        reason: str | None = None,
        progress: Heard = ...,
    ) -> dict[str, Any]:
        """Write letters to a new file or an open one, a JSON line each, whole: payloads and headers as they are sent.

        Only its owner may read the file: what is hidden elsewhere stands in it.
        """

    def import_(self, source: Place, *, by: str, reason: str, progress: Heard = ...) -> dict[str, int]:
        """Take in letters that `export` wrote, as dead ones under their own ids: read twice, a file brings each once.

        A letter whose key belongs to another job here comes without it, and is counted as `without_key`.
        """

    def plan(self, filter: LetterFilter | None = None, *, session: str | None = None) -> dict[str, Any]:
        """Foresee what a redrive of these letters would do, by what is stored; the `token` carries out exactly that.

        With `session`, an agent plans: `manual` letters, and those that may have landed, need a person's approval.
        """

    def redrive(
        self,
        token: str,
        *,
        by: str,
        reason: str | None = None,
        rate: str | float | None = None,
        canary: int = 0,
        halt_on: float | None = None,
        session: str | None = None,
    ) -> SyncRedrive:
        """Carry a plan out: `canary` letters first, then the rest at a `rate`, until a share of `halt_on` fails again.

        It is on disk when this returns, and goes on in any worker, whatever becomes of this process. With `session`, an
        agent asks: it carries out plans that were made for an agent only.
        """

    @property
    def redrives(self) -> SyncRedrives: ...
    def __init__(self, target: Any) -> None: ...

class SyncRedrive:
    """The verbs of `redrive` as plain calls."""

    def progress(self) -> dict[str, Any]:
        """Tell where it stands and what became of its letters."""

    def failures(self) -> Sequence[dict[str, Any]]:
        """Give the last of its letters that stopped again, each with its error."""

    def pause(self) -> None:
        """Replay no more until it is resumed; what was replayed goes on."""

    def resume(self) -> None:
        """Go on after a pause or a halt. After a halt it is judged anew, canary first."""

    def cancel(self) -> None:
        """Leave the rest as it is, for good."""

    @property
    def id(self) -> str: ...
    def __init__(self, target: Any) -> None: ...

class SyncRedrives:
    """The verbs of `dead_letters.redrives` as plain calls."""

    def list(self, *, limit: int = 50) -> builtins.list[dict[str, Any]]:
        """List redrives, the newest first."""

    def __init__(self, target: Any) -> None: ...

class SyncApprovals:
    """The verbs of `approvals` as plain calls."""

    def list(self, state: str | None = "pending", *, queues: Sequence[str] | None = None, limit: int = 100) -> Listed:
        """List approvals, the newest first: those that wait, those of another state, or with None all.

        With `queues`, those of letters of these; a redrive is of no one queue. `more` tells whether there are others.
        """

    def get(self, id: str) -> dict[str, Any]:
        """Give one approval."""

    def approve(self, id: str, *, by: str, groups: Iterable[str] = ..., token: str | None = None) -> dict[str, Any]:
        """Say yes, and have the replay performed. The policy is asked again first, and its no wins.

        Neither the asker nor a requester of the work may. The groups of `by` are those that `[groups]` in the
        store gives them; `groups` adds what your application itself knows of them. `token` is the id of the token that
        `by` showed: one that the asker or a requester made after asking counts as their own.
        """

    def deny(self, id: str, *, by: str, reason: str) -> dict[str, Any]:
        """Deny: the letter stays dead, the redrive ends. This needs no group: everyone who may see it may deny it."""

    def __init__(self, target: Any) -> None: ...

class SyncPolicies:
    """The verbs of `policy` as plain calls."""

    def show(self) -> dict[str, Any]:
        """Give the policy in force with its text, who published it and when, and what is wrong, if anything is."""

    def check(
        self,
        text: str | bytes,
        source: str = "candidate",
        *,
        without_secrets: bool = False,
        longest: float | None = None,
    ) -> dict[str, Any]:
        """Tell what a candidate would change: every stored letter under the policy in force, and under this one.

        `without_secrets` is for those who are shown none: rules then see labels as they do, and guess none of them.
        Rules times letters may be many: they are compared beside the loop, for no more than `longest` seconds.
        """

    def __init__(self, target: Any) -> None: ...

class SyncAudit:
    """The verbs of `audit` as plain calls."""

    def entries(self, *, after: int = 0, limit: int = 50, job: JobId = None, kind: str | None = None) -> Decisions:
        """List decisions, oldest first, each with the `seq` and the time of its link; `after` continues after a `seq`.

        The decisions of one transaction stay together: a page may be shorter than `limit`, and longer if one
        transaction made more. Its `next_after` is where the next page begins.
        """

    def last(self, number: int, *, job: JobId = None, kind: str | None = None) -> Decisions:
        """List this many of the last decisions, oldest first."""

    def verify(self) -> dict[str, Any]:
        """Return whether the chain is what was written: `{"ok", "entries", "head", "anchored", "problem"?}`.

        `head` is the last link's hash, `anchored` the number of the last link noted outside (None if there is none),
        and `anchored_from` that of the first. A `problem` names the first link, by its `seq`, that was changed,
        removed, moved or cut off, or that should have been noted outside and was not. `begins_late` is there if heads
        are noted outside, but not from the beginning, and says what that leaves open.
        """

    def export(self, path: str | Path) -> dict[str, Any]:
        """Write the chain to a new file, one link per line, with its first; return how many links and where it ends.

        A broken chain is written as it is; `ok` is False then, and `problem` says where.
        """

    def __init__(self, target: Any) -> None: ...

class SyncTokens:
    """The verbs of `tokens` as plain calls."""

    def create(
        self,
        name: str,
        *,
        person: str,
        role: str,
        groups: Sequence[str] = ...,
        queues: Sequence[str] | None = None,
        sessions: Sequence[str] | None = None,
        expires: Seconds | str | None = None,
        by: str | None = None,
        made_with: str | None = None,
    ) -> dict[str, Any]:
        """Make a token; its text is in the answer and nowhere else. `expires` is seconds from now, or such as "30d".

        `sessions` are the sessions it may work in, by default the first; it is then an agent's token. `made_with` is
        the id of the token that `by` used: an approval considers who made a token, and with what.
        """

    def list(self) -> builtins.list[dict[str, Any]]:
        """List valid tokens, without their secrets."""

    def revoke(self, name: str, *, by: str | None = None) -> None:
        """Revoke a token, from now on and everywhere."""

    def __init__(self, target: Any) -> None: ...

class SyncInbox:
    """The verbs of `inbox` as plain calls."""

    def list(self, session: str, unread: bool = True, *, limit: int = 100) -> builtins.list[dict[str, Any]]:
        """List a session's messages, the newest first: unread ones, or all that are kept.

        What went well (`retry_success`, `submit_done`) is read by being listed; what needs action
        (`retry_exhausted`, `submit_failed`) stays unread until it is acknowledged with `ack`.
        """

    def ack(self, id: str, *, session: str | None = None) -> None:
        """Acknowledge a message: it is read from now on. With `session`, only one of that session's own."""

    def overview(self, session: str, *, queues: Sequence[str] | None = None) -> dict[str, Any]:
        """Count a session's jobs by state, what of it waits in a queue, and its unread messages."""

    def __init__(self, target: Any) -> None: ...

class SyncConsent:
    """The verbs of `consent` as plain calls."""

    def grant(
        self,
        session: str | None,
        handler: Any,
        *,
        mode: Mode = "once",
        by: str | None = None,
        reason: str | None = None,
        seconds: float | str | timedelta | None = None,
        uses: int | None = None,
    ) -> dict[str, Any]:
        """Allow a session a handler, or deny it; jobs waiting for it go on, or die. None means jobs without a session.

        `once` is for one job, its repeats included; `timed` for an hour, or `seconds`; `always` for as long as is
        allowed (30 days, or `[store] consent_lifetime`); `deny` is a no that wins. `"*"` is every handler, but only for
        what the session does first-hand: it covers no retry and no replay. A name that no process ever declared is
        refused; written out as `queue/handler` it is accepted, for a program that comes later, with a `warning`.
        """

    def deny(
        self,
        session: str | None,
        handler: Any,
        *,
        by: str | None = None,
        reason: str | None = None,
        seconds: float | str | timedelta | None = None,
    ) -> dict[str, Any]:
        """Deny a session a handler, which wins over every grant: `grant` with `mode="deny"`."""

    def answer(
        self,
        id: str,
        *,
        mode: Mode = "once",
        by: str | None = None,
        reason: str | None = None,
        seconds: float | str | timedelta | None = None,
        payload_sha256: str | None = None,
    ) -> dict[str, Any]:
        """Answer one job that waits for consent. `once` lets exactly this job run, its repeats included.

        `timed` and `always` are a grant to its session for this handler, for later jobs too. `deny` ends this job, and
        no other. With `payload_sha256`, the answer counts only if the payload is still the one that was shown.
        """

    def revoke(
        self, session: str | None, handler: Any = None, *, by: str | None = None, reason: str | None = None
    ) -> int:
        """Revoke a session's answers about a handler, or all of them; return how many that was.

        Running jobs continue. A job that had used the grant asks again before its next attempt.
        """

    def list(self, session: str | None = None) -> Grants:
        """List the answers in force, the newest first: of one session, or of all."""

    def asks(self, session: str | None = None) -> Grants:
        """List the jobs that are held until consent is given, the oldest first: of one session, or of all."""

    def check(self, session: str | None, handler: Any) -> dict[str, Any]:
        """Say what a new job of this session would get: `allowed`, `ask` or `denied`. Asking spends nothing."""

    def __init__(self, target: Any) -> None: ...

class SyncSchedules:
    """The verbs of `schedules` as plain calls."""

    def list(self) -> builtins.list[dict[str, Any]]:
        """Return every schedule with its times in plain words, its next runs, and its last one."""

    def add(
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
        by: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> dict[str, Any]:
        """Enqueue a job by the clock: give one of `cron`, `every` or `at`. Call it at every start.

        It is an upsert: a schedule that exists as you ask for it is left alone, with its next run and its pause. New
        times begin anew; any other change (a payload, a priority) holds from the next tick on. `cron` and `at` are wall
        time in `tz`; `every` counts from when it was added. `missed` says what happens after a time without workers:
        `latest` runs the last missed tick, `skip` none, `all` the last 100. `jitter` delays each tick by up to so many
        seconds. Ticks never run side by side, unless `overlap`. `by` is who asks, if not the operating system's user:
        the jobs are theirs, unless `requester` names another. The rest is as in `enqueue`.
        """

    def remove(self, name: str) -> None:
        """Remove a schedule; jobs that it has enqueued continue."""

    def pause(self, name: str) -> None:
        """Enqueue nothing more until `resume`; the jobs it has enqueued continue."""

    def resume(self, name: str) -> None:
        """Resume a paused schedule with its next regular tick; the ticks during the pause are left out."""

    def __init__(self, target: Any) -> None: ...

class SyncWorkflows:
    """The verbs of `workflows` as plain calls."""

    def get(self, id: str) -> dict[str, Any]:
        """Return a workflow with its steps, each with its state, and its result once it is completed."""

    def list(self, state: str | None = None, *, limit: int = 50, cursor: str | None = None) -> Found:
        """List workflows, the newest first, without their steps; `cursor` is the last id of the page before."""

    def cancel(self, id: str, *, by: str | None = None) -> dict[str, Any]:
        """End every step that is not final. A running step is asked to stop, and ends cancelled unless it succeeds."""

    def __init__(self, target: Any) -> None: ...

class SyncWorkflow:
    """The verbs of `workflow` as plain calls."""

    @overload
    def step(
        self,
        name: str,
        handler: Handler[None, Any],
        payload: None = None,
        *,
        after: After = ...,
        queue: str | None = None,
        **options: Unpack[StepOptions],
    ) -> Step:
        """Add a step: `handler`, an object or a name, runs once every step in `after` is completed.

        Their results are in `job.parents`. A handler given by name that is not registered here works for the queue of
        its name, or for `queue`. `delay` and `at` say how early the step may start; the other options are `enqueue`'s.
        """

    @overload
    def step(
        self,
        name: str,
        handler: Handler[T, Any],
        payload: T,
        *,
        after: After = ...,
        queue: str | None = None,
        **options: Unpack[StepOptions],
    ) -> Step: ...
    @overload
    def step(
        self,
        name: str,
        handler: Handler[TypedDictT, Any],
        payload: dict[str, Any],
        *,
        after: After = ...,
        queue: str | None = None,
        **options: Unpack[StepOptions],
    ) -> Step: ...
    @overload
    def step(
        self,
        name: str,
        handler: str,
        payload: Any = None,
        *,
        after: After = ...,
        queue: str | None = None,
        **options: Unpack[StepOptions],
    ) -> Step: ...
    def start(self, idempotency_key: str | None = None, session: str | None = None) -> str:
        """Store all steps, or none, and return the workflow's id. Steps that wait for nothing can run at once.

        The same key does not start the same workflow twice: the second call returns the id of the first.
        """

    @property
    def name(self) -> str: ...
    def __init__(self, target: Any) -> None: ...

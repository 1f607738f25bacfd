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

        `otherwise` is called instead, without arguments, when it is certain that nothing can be stored now: the store
        is away, or the queue or the disk is full. `tx` is your own connection with an open transaction; the job exists
        exactly if you commit it. It leads to the store's own PostgreSQL (psycopg, asyncpg, SQLAlchemy, Django), or to
        any SQLite database (`sqlite3`, SQLAlchemy, Django): there the job is written to an outbox, and `sf.outbox(...)`
        brings it here.

        Other options: `idempotency_key`, a name for this work: a second job with it is a `duplicate`; `thread_key`:
        jobs with the same one run one at a time, in order; `coalesce`, what becomes of a job of the thread that still
        waits (`"never"`, `"latest"`, `"collect"`); `priority`, higher first; `delay` or `at`, when it may start;
        `expires`, until when; `attempts` and `lease`, in place of the queue's; `session` and `requester`, who asks;
        `risk` and `labels`, for policies and for people; `first_seen_at`, since when it has been wanted. `handler`
        names the handler if it is not the one named like the queue.
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

        The body is sent as JSON, or unchanged if it is text and `headers` name its content type. Without an
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
        """Store several jobs in one transaction, or in yours: all or none. Receipts come in the order of the payloads.

        `keys` gives each job its own idempotency key: a list, or a function of the payload; None is no key. A job that
        exists already is a `duplicate`, so that you can repeat the call. A key that belongs to another payload is an
        `IdempotencyConflict`, and then nothing is stored. `first_seen_at` keeps the age of jobs that waited elsewhere:
        a list, a function of the payload, or one moment for all. `otherwise` is called once, for all of them.
        """

    def enqueue_each(self, jobs: Iterable[Mapping[str, Any]]) -> list[Receipt | StandfastError]:
        """Store jobs of any queues together; return a receipt or an error for each.

        A job is a dict of the arguments of `enqueue`: `queue`, `payload` and options; or `http` instead of `payload`, a
        dict of the arguments of `enqueue_http`. A refused job does not affect the others. A job with a receipt is on
        disk.
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

        `enqueue` refuses a payload that does not fit its handler; this accepts it, and the job dies as `schema_invalid`
        at its first claim, where operators see it. `body_key` is a second key besides `idempotency_key`: a job with
        either is a duplicate. With `newest_counts` the job folds into a waiting job of its thread, unless its queue
        collects.
        """

    @overload
    def run(self, handler: Handler[None, R], params: None = None, **options: Unpack[RunOptions]) -> Reply[R]:
        """Call a handler here and now. The call is on disk before it starts, and survives this process.

        `handler` is a handler of yours, `"queue/handler"`, the name of a queue with one handler, or a handler's name
        that is unique. The call starts under the same rules as in a worker: if it may not start, the Reply is `queued`
        and says why. After a transient failure it goes into the queue, and workers continue it. The same
        `idempotency_key` returns the stored result or the current state, and never calls twice. If this process does
        not have the handler, the call is queued and waited for; if no process ever published it, the call is refused
        with `UnknownHandler`, and nothing is written.
        If you pass a handler with a return annotation, `result` has that type; if you pass a name, it is JSON.
        """

    @overload
    def run(self, handler: Handler[T, R], params: T, **options: Unpack[RunOptions]) -> Reply[R]: ...
    @overload
    def run(self, handler: str, params: Any = None, **options: Unpack[RunOptions]) -> Reply[Any]: ...
    @overload
    def submit(self, handler: Handler[None, R], params: None = None, **options: Unpack[SubmitOptions]) -> Reply[R]:
        """Let a worker call a handler, once. The Reply comes at once: `queued`, with the id to ask for later."""

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
        """Take over a call that has already failed elsewhere: that attempt counts, and the queue continues from there.

        `error` is the exception, the result that describes the failure, or a text. After a transient failure the call
        is queued with its backoff, unless the handler is `manual`; a call that cannot succeed or must not be repeated
        becomes a letter for a person. With an `idempotency_key`, a call is taken over once, however often it is handed
        over: the Reply says where it stands.
        """

    def workflow(self, name: str) -> SyncWorkflow:
        """Begin to describe a workflow: add its steps with `step`, then `await start()`."""

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

        `total` also limits the slots over all queues; while few are free, queues take turns.
        `suspects` is the command that runs `run_suspects` in a process of its own, for jobs whose worker died while it
        ran them; without it, this worker runs them itself, one at a time, while it holds no other job.
        """

    def outbox(self, connect: Connect, *, every: Seconds = ..., with_workers: bool = False) -> SyncOutbox:
        """Bring here the jobs enqueued with `tx=` in your own database; `connect` opens it, as `sqlite3` does.

        `async with sf.outbox(connect):` looks every `every` seconds; `await outbox.relay()` looks once. Called once
        where your handlers are, `sf.outbox(connect, with_workers=True)` makes every worker look as long as it runs.
        """

    def alerting(self) -> AbstractContextManager[None]:
        """Look for alerts in a process that runs no jobs: `async with sf.alerting(): ...`. Workers do so anyway.

        Some process must look even if there is no worker: that may be just what is wrong. So if `[notify]` says whom to
        tell, this runs a worker of its own that does nothing but deliver.
        """

    def open(self) -> Sync:
        """Open the store and publish the declarations; if jobs can be spooled, the store may still be away.

        The first use also opens it; after `close` only this does.
        """

    def close(self) -> None:
        """Drain the workers of this process, and close the store and the HTTP connections.

        Every later call raises `StoreClosed`, until `open` or `async with` opens it again.
        """

    def status(self, id: JobId) -> JobView | None:
        """Return a job as it is now, or None; nothing is changed."""

    def wait(self, id: JobId, timeout: Seconds) -> JobView:
        """Wait until a job is settled: final, held, or dead without an automatic replay to come."""

    def result(self, id: JobId, key: str | None = None) -> Any:
        """Return a job's whole result, or one key of it; a job that is not done has no result."""

    def explain(self, id: JobId) -> str:
        """Explain in one sentence, with evidence, why a job is where it is."""

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

        `label` is `name` or `name:value`. `q` is searched for literally in ids, handlers, keys, payloads and failures.
        `possible_duplicate` selects jobs that may have had their effect twice, or with False the others.
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
        """Run a job again as soon as possible: a waiting job now, a letter by replay. A running job is left alone.

        With `probe`, a function or a URL, the job runs once that says yes (True, or 2xx); if it does not within
        `timeout`, the job does not run, and the Reply says why as `probe`. Only this call waits; nothing is stored.
        `by` is who asks; the default is the session, or else the operating system's user. With `session`, an agent
        asks: a letter that is `manual` or may have landed then waits for a person's approval.
        """

    def cancel(self, id: JobId, *, by: str | None = None) -> JobView:
        """End a job that is no longer wanted. A running job is asked to stop, and ends cancelled unless it succeeds.

        `by` is who asks; the default is the operating system's user. The job's history keeps it.
        """

    def stats(self) -> dict[str, Any]:
        """Return counts of what the store holds now, and of what has happened so far."""

    def workers(self) -> list[dict[str, Any]]:
        """Return every live worker, the oldest first: where it is, what it serves, and what it runs now."""

    def health(self) -> dict[str, Any]:
        """Judge the store by its contents; while it is away, by the jobs that wait for it on this host."""

    def ready(self) -> None:
        """Return if work is accepted now: the store answers, has no trouble and has room. Otherwise raise why not."""

    def measures(self) -> Measures:
        """Measure everything, for `/metrics`; while the store is away, the jobs that wait for it on this host."""

    def subscribe(
        self, kinds: Collection[str] | None = None, queue: str | None = None, after: int | None = None
    ) -> Iterator[Notice]:
        """Yield notices of what happens to jobs, in commit order, from every process; `after` resumes after a `seq`."""

    def doctor(self, *, full: bool = False) -> dict[str, Any]:
        """Examine the store, even one that cannot be opened; a store that does not exist yet is not created.

        The whole store is read once; `full` also compares every index with its table, which takes longer.
        """

    def migrate(self) -> tuple[int, int]:
        """Upgrade the store's schema, as every opening does; return its version before and after."""

    def backup(self, path: str | Path) -> dict[str, Any]:
        """Copy the store to a new file while work goes on, and verify the copy; return what it holds."""

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
        """Call this handler here and now. The call is recorded first; the Reply says how it ended."""

    @overload
    def run(self, payload: T, **options: Unpack[RunOptions]) -> Reply[R]: ...
    @overload
    def submit(self: SyncHandler[None, R], payload: None = None, **options: Unpack[SubmitOptions]) -> Reply[R]:
        """Let a worker call this handler, once. The Reply comes at once and says that the call is not done yet."""

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
        """Claim no more, let running jobs end or give them back, and leave. Calling it again waits for the same end.

        If the caller is cancelled, it stops waiting, but the worker still leaves.
        """

    def run_due(self, at_once: int | None = None) -> Counter[str]:
        """Run due jobs, repeats included, until none is left, then stop: no timers, no waiting. For tests.

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
        """List letters, newest first; the page's `next_cursor` leads to the older ones. `queues` limits it to these.

        A page that had to skip many letters ends early: it may be short, even empty, and still have a `next_cursor`.
        """

    def get(self, id: str) -> JobView:
        """Return one letter, whole."""

    def groups(self, filter: LetterFilter | None = None) -> Groups:
        """Group letters by cause, the largest group first: `count`, `sample`, `first_seen`, `last_seen`.

        `fingerprint` is also a filter: one plan, purge or export for the whole group. `regressed` counts letters that
        were replayed and stopped for the same cause again.
        """

    def replay(self, id: str, *, by: str, reason: str | None = None, session: str | None = None) -> dict[str, Any]:
        """Put a letter back to work: same id, key and payload, in a new round. Concurrent requests replay it once.

        First its effects are verified, then the policy is asked. The letter is `resolved` at once if its handler is
        registered here and every effect exists; otherwise, if the policy allows it, it is `replayed`, and the worker
        looks before it runs. A letter that waits for consent is not replayed: the answer is `consent_required`, with
        what to do. With `session`, an agent asks: a `manual` letter, or one that may have landed, then waits for a
        person's approval whatever the policy allows, and one that is quarantined or was refused consent is `denied`.
        """

    def amend(self, id: str, payload: Any, *, by: str, reason: str) -> JobView:
        """Change a letter's payload; only this can. It passes every check of a new one; nothing runs automatically.

        The job keeps its id, and its old key still answers with it; receivers get the key of a new generation.
        Approvals of the old payload are void. Raises NotVerified while an effect may exist that is not recorded: after
        the change, its check would look for another key. `resolve` verifies it.
        """

    def resolve(self, id: str, *, by: str, reason: str, result: Any = ...) -> JobView:
        """End a letter whose effect exists: its checks decide, or, with `result=`, you vouch for it.

        Raises NotVerified if a check finds an effect missing, or cannot tell; the letter stays as it is.
        """

    def discard(self, id: str, *, by: str, reason: str) -> JobView:
        """End a letter that is no longer wanted: it is cancelled, and pruned like a finished job."""

    def quarantine(self, id: str, *, by: str, reason: str, owner: str | None = None) -> JobView:
        """Set a letter apart for its `owner` to look at: it is not replayed automatically; its approvals are void."""

    def purge(
        self,
        filter: LetterFilter | None = None,
        *,
        by: str,
        reason: str | None = None,
        confirm: int | None = None,
        progress: Heard = ...,
    ) -> dict[str, int]:
        """Delete dead and discarded letters for good; held ones stay. None goes unless `confirm` is how many match.

        A `reason` is required only with `confirm`. More than a thousand are deleted in several transactions; `progress`
        is called with how far it is.
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
        """Write letters to a new file or an open one, one JSON line each, whole: payloads and headers as they are sent.

        Only its owner may read the file: values that are hidden elsewhere are readable in it.
        """

    def import_(self, source: Place, *, by: str, reason: str, progress: Heard = ...) -> dict[str, int]:
        """Import letters that `export` wrote, as dead letters with their own ids: a file read twice stores each once.

        A letter whose key belongs to another job here is stored without it, and counted as `without_key`.
        """

    def plan(self, filter: LetterFilter | None = None, *, session: str | None = None) -> dict[str, Any]:
        """Predict from the store what a redrive of these letters would do; its `token` carries out exactly that.

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
        agent asks: it can carry out only plans that were made for an agent.
        """

    @property
    def redrives(self) -> SyncRedrives: ...
    def __init__(self, target: Any) -> None: ...

class SyncRedrive:
    """The verbs of `redrive` as plain calls."""

    def progress(self) -> dict[str, Any]:
        """Return its state and what became of its letters."""

    def failures(self) -> Sequence[dict[str, Any]]:
        """Return the last of its letters that stopped again, each with its error."""

    def pause(self) -> None:
        """Replay no more letters until it is resumed; replayed ones go on."""

    def resume(self) -> None:
        """Continue after a pause or a halt. After a halt it is judged anew, canary first."""

    def cancel(self) -> None:
        """End the redrive for good; the remaining letters stay as they are."""

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
        """List approvals, the newest first: pending ones, those of another state, or with None all.

        With `queues`, only those of letters of these; a redrive belongs to no single queue. `more` says whether there
        are more.
        """

    def get(self, id: str) -> dict[str, Any]:
        """Return one approval."""

    def approve(self, id: str, *, by: str, groups: Iterable[str] = ..., token: str | None = None) -> dict[str, Any]:
        """Approve, and perform the replay. The policy is asked again first, and its no wins.

        Neither the asker nor a requester of the work may approve. The groups of `by` are those that `[groups]` in the
        store gives them; `groups` adds those that your application knows. `token` is the id of the token that `by`
        showed: one that the asker or a requester made after asking counts as their own.
        """

    def deny(self, id: str, *, by: str, reason: str) -> dict[str, Any]:
        """Deny: the letter stays dead, the redrive ends. This needs no group: everyone who may see it may deny it."""

    def __init__(self, target: Any) -> None: ...

class SyncPolicies:
    """The verbs of `policy` as plain calls."""

    def show(self) -> dict[str, Any]:
        """Return the policy in force with its text, who published it and when, and what is wrong, if anything."""

    def check(
        self,
        text: str | bytes,
        source: str = "candidate",
        *,
        without_secrets: bool = False,
        longest: float | None = None,
    ) -> dict[str, Any]:
        """Return what a candidate would change: compare the decisions on every stored letter with the policy in force.

        `without_secrets` is for callers who may not see secrets: rules then see the labels redacted, so that no rule
        can be used to guess them. Rules times letters may be many: they are compared in a thread, for at most `longest`
        seconds.
        """

    def __init__(self, target: Any) -> None: ...

class SyncAudit:
    """The verbs of `audit` as plain calls."""

    def entries(self, *, after: int = 0, limit: int = 50, job: JobId = None, kind: str | None = None) -> Decisions:
        """List decisions, oldest first, each with the `seq` and the time of its link; `after` continues after a `seq`.

        The decisions of one transaction stay together: a page may be shorter than `limit`, and longer if one
        transaction made more. Its `next_after` is where the next page begins.
        """

    def last(self, number: int, *, job: JobId = None, kind: str | None = None, within: int | None = None) -> Decisions:
        """List this many of the last decisions, oldest first; with `within`, look only at so many of the last links."""

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

        Listing marks successes (`retry_success`, `submit_done`) as read; a message that needs action
        (`retry_exhausted`, `submit_failed`) stays unread until you acknowledge it with `ack`.
        """

    def ack(self, id: str, *, session: str | None = None) -> None:
        """Acknowledge a message: it is read from now on. With `session`, only a message of that session."""

    def overview(self, session: str, *, queues: Sequence[str] | None = None) -> dict[str, Any]:
        """Count a session's jobs by state, those that wait in a queue, and its unread messages."""

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

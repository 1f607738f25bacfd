"""The parts of a Standfast: each belongs to one package, and knows nothing of the object that holds it."""

from __future__ import annotations

import os
from functools import partial
from weakref import WeakSet

from standfast import settings, telemetry
from standfast.application.fallback import Fallbacks
from standfast.application.reception import Reception
from standfast.application.traced_accept import TracedReception, TracedTransactions
from standfast.application.wings import store_at
from standfast.application.wrapping import Wrap
from standfast.clock import Clock, SystemClock
from standfast.spine.accept import Acceptor
from standfast.spine.registry import Handler, Registry
from standfast.store.store import Store
from standfast.wings.alerts.announcer import Announcer
from standfast.wings.alerts.cursors import Cursors
from standfast.wings.alerts.follower import Follower
from standfast.wings.alerts.lookout import Lookout
from standfast.wings.alerts.sinks import Sinks
from standfast.wings.alerts.subscribers import Subscriptions
from standfast.wings.alerts.surfaces import read as read_notify
from standfast.wings.alerts.verbs import Alerts
from standfast.wings.audit.verbs import Audit
from standfast.wings.consent.verbs import Consent
from standfast.wings.effects.default_replay import DefaultReplay
from standfast.wings.effects.verbs import Verifier
from standfast.wings.health.verbs import wrong_now
from standfast.wings.http.sender import Sender
from standfast.wings.imports.verbs import Imports
from standfast.wings.isolation.child_process import Children
from standfast.wings.jobs.verbs import Operations, Queues
from standfast.wings.letters.verbs import DeadLetters
from standfast.wings.limits.probes import says_no
from standfast.wings.limits.queue_gates import QueueGates
from standfast.wings.limits.readiness import Readiness
from standfast.wings.notices.journal_reader import JournalReaders
from standfast.wings.policy.verbs import Policies
from standfast.wings.queues import handler_cards
from standfast.wings.queues.checks import Admission
from standfast.wings.queues.declarations import Declarations
from standfast.wings.relay.outbox_marker import OutboxMarker
from standfast.wings.relay.outboxes import Outboxes
from standfast.wings.relay.transactions import Transactions
from standfast.wings.schedules.declared_schedules import DeclaredSchedules
from standfast.wings.schedules.verbs import Schedules
from standfast.wings.sessions.verbs import Inbox
from standfast.wings.tokens.browser_sessions import BrowserSessions
from standfast.wings.tokens.shared_settings import SharedSettings
from standfast.wings.tokens.verbs import Tokens
from standfast.wings.workflows.verbs import Workflows
from standfast.worker.caller import Caller, Callers
from standfast.worker.life_hooks import LifeHooks
from standfast.worker.middleware import Middleware
from standfast.worker.worker import Worker


class Parts:
    """The parts of one Standfast, created but not yet opened; its subclasses have the verbs."""

    def __init__(self, url: str | os.PathLike[str] | None = None, *, clock: Clock | None = None) -> None:
        self.settings = settings.load(url, os.environ)
        self.clock = clock or SystemClock()
        self.tracing = telemetry.tracing(on=self.settings.otel.value)
        self._store = self._new_store()
        self._registry = Registry()
        self._sender = Sender()
        self._verifier = Verifier(self._sender)
        self._readiness = Readiness(self._registry, partial(says_no, sender=self._sender), self.clock.elapsed)
        self._make_working()
        self._acceptor = Acceptor(self._registry, self.clock)
        self._declared = Declarations(self._store, self._registry, self.settings)
        self._declared.add_publisher(partial(handler_cards.publish, self._store, self._registry))
        self._ready = self._declared.publish
        self._admission = Admission(self._store, self._declared, strict=self.settings.strict_queues.value)
        self.workflows = Workflows(
            self._store, self._ready, self._registry, self._acceptor, self._admission, tracing=self.tracing
        )
        self.policy = Policies(self._store, self._declared, self.settings.policy)
        self._default_replay = DefaultReplay(self._registry, self.settings.replay)
        self.shared_settings = self._new_shared_settings()
        self.dead_letters = self._new_letters()
        self.approvals = self.dead_letters.approvals
        self.queues = Queues(self._store, self._ready, self._admission)
        self.inbox = Inbox(self._store, self._ready)
        self.consent = self._new_consent()
        self._make_telling()
        self._make_scheduling()
        self.audit = Audit(self._store, self._ready)
        self.tokens = Tokens(self._store, self._ready, viewer_payloads=self.settings.viewer_payloads)
        self.browser_sessions = self._new_browser_sessions()
        self.imports = Imports(self._store, self._ready, self._acceptor, self._admission)
        self._operations = Operations(self._store, self.dead_letters, self._sender)
        self._fallbacks = Fallbacks(self._store)
        self._reception = self._new_reception()
        self._transactions = self._new_transactions()
        self._callers = Callers(self._new_caller)

    def publish_nothing(self) -> None:
        """Leave every rule in the store as it is, whatever this file and code declare: for processes that only read."""
        self._declared.publish_nothing()

    def _own_queues(self) -> frozenset[str]:
        """Return the queues that this process declares or serves."""
        return frozenset(self._declared.rules) | frozenset(queue for queue, _ in list(self._registry.own))

    def _new_store(self) -> Store:
        """Create the store without opening it."""
        given = self.settings
        return store_at(
            given.url.value,
            self.clock,
            audit_file=given.audit_file.value,
            spool=given.spool.value,
            approval_ttl=given.approval_ttl.value,
        )

    def _make_working(self) -> None:
        """Create what keeps this process's workers, hooks, outboxes and child processes."""
        self._workers: WeakSet[Worker] = WeakSet()
        self._wraps: list[Wrap] = []
        """What frameworks wrap around the function of each handler."""
        self._outboxes = Outboxes()
        self._children = Children()
        self._life = LifeHooks()
        self._middleware = Middleware()
        self._importable: set[Handler] = set()
        """The isolated handlers that a child process is known to be able to import."""

    def _make_scheduling(self) -> None:
        """Create the schedules, and those declared in this process."""
        self.schedules = Schedules(self._store, self._ready, self._acceptor, self._admission, self.clock)
        self._declared_schedules = DeclaredSchedules(self._store, self.schedules, self._own_queues)
        self._declared.further = lambda: {**self._declared_schedules.statement(), **self._default_replay.statement()}

    def _make_telling(self) -> None:
        """Create notices, subscriptions and alerts."""
        self._notify = read_notify(self.settings.notify, self.settings.config.value)
        cursors = Cursors(self._store, self._notify)
        self._declared.add_publisher(cursors.begin)
        self._journals = JournalReaders(self._store)
        self._announcer = Announcer(self._store, self._acceptor, self._notify)
        self._follower = Follower(self._store, self._notify, cursors, self._announcer)
        self._subscriptions = Subscriptions(self._store, self._acceptor, self._notify, cursors)
        self._sinks = Sinks(self._store, self.clock)
        self.alerts = Alerts(self._store, self._ready, wrong_now)
        self._lookout = Lookout(self._store, self.clock, wrong_now)

    def _new_reception(self) -> Reception:
        """Create what accepts jobs."""
        parts = (self._store, self._store.spool(), self._declared, self._fallbacks)
        return Reception(*parts) if self.tracing is None else TracedReception(self.tracing, *parts)

    def _new_transactions(self) -> Transactions:
        """Create what writes jobs inside callers' transactions."""
        self._outbox_marker = OutboxMarker(self._store, self._declared.publish_now)
        parts = (self._store, self._ready, self.clock, self._outbox_marker)
        return Transactions(*parts) if self.tracing is None else TracedTransactions(self.tracing, *parts)

    def _new_shared_settings(self) -> SharedSettings:
        """Create what publishes the settings that every process reads from the store."""
        given = self.settings
        return SharedSettings(
            self._store, self._declared, groups=given.groups, hidden=given.hidden, replay=self._default_replay
        )

    def _new_letters(self) -> DeadLetters:
        """Create what decides about letters."""
        return DeadLetters(
            self._store,
            self._ready,
            self._registry,
            self._verifier,
            permit=self.policy.permit,
            permit_many=self.policy.permit_many,
            groups_of=self.shared_settings.groups_of,
            ttl=self.settings.approval_ttl.value,
        )

    def _new_consent(self) -> Consent:
        """Create what asks sessions for consent."""
        lifetime = self.settings.consent_lifetime.value
        return Consent(self._store, self._ready, self._registry, self.policy.known, lifetime=lifetime)

    def _new_browser_sessions(self) -> BrowserSessions:
        """Create what signs browsers in."""
        lasting = {"idle": self.settings.session_idle.value, "lifetime": self.settings.session_lifetime.value}
        return BrowserSessions(self._store, self._ready, self.tokens, **lasting)

    def _new_caller(self) -> Caller:
        """Create what runs the calls of one event loop."""
        return Caller(
            self._store,
            self._registry,
            verifier=self._verifier,
            doors=QueueGates(self._registry.gates, self._sender.ask),
            readiness=self._readiness,
            policy=self.policy,
            declared=self._declared,
            tracing=self.tracing,
            middleware=self._middleware,
        )

"""The words of a policy file: every key, and where it may occur."""

from __future__ import annotations

from typing import get_args

from standfast.failure import Action, Class, Landed
from standfast.rules import ReplayMode
from standfast.wings.policy.rules import Decision

TOP_KEYS = ("version", "dlq_rules", "replay_rules")
DLQ_KEYS = ("match", "action", "max_replays", "backoff", "owner", "approver_group")
REPLAY_KEYS = ("match", "decision", "approver_group", "why")

OPEN_TEXTS = ("reason_code", "cause", "error_kind", "queue", "handler", "session", "requester")
"""Keys of a match that take any text, with `*` for any characters."""
CODES = ("reason_code", "cause")
"""The keys that take reason codes, for which other systems may have other names."""
CLOSED_TEXTS: dict[str, tuple[str, ...]] = {"class": tuple(Class), "landed": tuple(Landed)}
"""Keys of a match that take one of a few words."""
COUNTS = ("attempts", "replays")
MATCH_KEYS = (*OPEN_TEXTS, *CLOSED_TEXTS, "risk", "labels", *COUNTS, "age")

ACTIONS: tuple[str, ...] = tuple(Action)
DECISIONS: tuple[str, ...] = get_args(Decision)
REPLAY_MODES: tuple[str, ...] = get_args(ReplayMode)

ONLY_WITH = {"max_replays": "auto_replay", "backoff": "auto_replay", "approver_group": "require_approval"}
"""Keys of a rule that go with only one action or decision."""

CASE_KEYS = ("name", "letter", "expect")
LETTER_KEYS = (*MATCH_KEYS, "replay_mode")
EXPECT_KEYS = ("action", "replay_status", "owner", "decision", "why", "approver_group", "rule")

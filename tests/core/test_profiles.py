"""Ready-made queues: the numbers of the seed, overridable rule by rule, from code and from the file."""

from __future__ import annotations

import pytest

from standfast import ConfigurationError, Standfast, UnknownQueue, exponential
from standfast.profiles import PROFILES, defaults_for, rules_for
from standfast.rules import DEFAULTS

ELEVEN = {
    *("analytics_ingest", "learning_capture", "identity_provision", "feedback", "mesh_keys", "security_notify"),
    *("artifact_delivery", "conversation_index", "graph_write", "session_lifecycle", "knowledge_ingest"),
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Read no settings of this machine's."""
    monkeypatch.chdir(tmp_path)
    for name in ("STANDFAST_URL", "STANDFAST_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_all_eleven_are_there():
    assert set(PROFILES) == ELEVEN


@pytest.mark.parametrize(
    ("queue", "attempts", "base", "cap"),
    [
        ("analytics_ingest", 5, 2, 300),
        ("learning_capture", 3, 1, 300),
        ("identity_provision", 10, 5, 600),
        ("feedback", 5, 2, 300),
        ("mesh_keys", 10, 5, 600),
        ("security_notify", 5, 3, 60),
    ],
)
def test_the_numbers_of_the_seed(queue, attempts, base, cap):
    rules = defaults_for(queue)
    assert (rules.attempts, rules.backoff) == (attempts, exponential(base=base, cap=cap))


@pytest.mark.parametrize("queue", sorted(ELEVEN))
def test_a_profile_sets_nothing_that_is_stamped_or_pruned_by_the_general_default(queue):
    rules = defaults_for(queue)
    for name in ("priority", "max_age", "keep_completed", "keep_keys", "lease"):
        assert getattr(rules, name) == getattr(DEFAULTS, name)


def test_any_other_queue_has_the_defaults():
    assert defaults_for("mail") is DEFAULTS
    assert rules_for("mail") == DEFAULTS


def test_code_overrides_rule_by_rule():
    rules = Standfast(":memory:").queue("identity_provision", attempts=3)
    assert (rules.attempts, rules.backoff) == (3, exponential(base=5, cap=600))


def test_the_file_overrides_rule_by_rule(tmp_path):
    (tmp_path / "standfast.toml").write_text("[queues.identity_provision]\nbackoff = {base = 1, cap = 2}\n")
    rules = Standfast(":memory:").settings.queues["identity_provision"]
    assert (rules.attempts, rules.backoff) == (10, exponential(base=1, cap=2))


def test_a_misspelt_rule_is_refused_for_a_ready_made_queue_too():
    with pytest.raises(ConfigurationError, match="atempts"):
        Standfast(":memory:").queue("feedback", atempts=3)  # type: ignore[call-arg]


async def test_strict_queues_know_the_ready_made_ones_only_once_they_are_declared(tmp_path):
    (tmp_path / "standfast.toml").write_text("[store]\nstrict_queues = true\n")
    async with Standfast(":memory:") as sf:
        with pytest.raises(UnknownQueue):
            await sf.enqueue("feedback")
        sf.queue("feedback")
        assert (await sf.enqueue("feedback")).outcome == "accepted"

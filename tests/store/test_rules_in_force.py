"""Rules live in the store: the last published are in force for everybody, those without the code included."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from standfast.outcome import NotEntered
from standfast.rules import DEFAULTS, QueueRules, exponential, fixed
from standfast.spine import intake
from standfast.spine.claim_requests import Publication
from standfast.spine.registry import Declaration
from standfast.store.scripts import writes
from standfast.store.steps import Round, Script, text
from standfast.store.store import Store
from standfast.wings.health import scripts as health_scripts
from standfast.wings.queues import publishing
from standfast.wings.queues import scripts as queue_scripts
from standfast.worker import upkeep
from standfast.worker.upkeep import WorkerCard
from tests.store.suite import catch, claim_one, ended, enqueued, failed, new_job, one, publish, seen, sweep

STRICT = QueueRules(attempts=2, lease=30.0, timeout=20.0)


async def test_a_claim_stamps_the_published_rules(store):
    publish(store, Declaration(queue="mail", name="mail", replay_mode="manual", timeout=5.0), mail=STRICT)
    job_id = await one(store)
    claim = await claim_one(store)
    assert (claim.max_attempts, claim.lease, claim.timeout, claim.replay_mode) == (2, 30.0, 5.0, "manual")
    assert (await seen(store, job_id)).max_attempts == 2


async def test_a_handler_without_a_timeout_has_its_queues(store):
    publish(store, Declaration(queue="mail", name="mail"), mail=STRICT)
    await one(store)
    assert (await claim_one(store)).timeout == 20.0


async def test_no_timeout_at_all_when_the_queue_says_so(store):
    publish(store, mail=QueueRules(timeout=None))
    await one(store)
    assert (await claim_one(store)).timeout is None


async def test_the_last_published_wins(store):
    publish(store, Declaration(queue="mail", name="mail", replay_mode="manual"), mail=STRICT)
    publish(store, Declaration(queue="mail", name="mail"), mail=QueueRules(attempts=9))
    await one(store)
    claim = await claim_one(store)
    assert (claim.max_attempts, claim.lease, claim.timeout, claim.replay_mode) == (9, 90.0, 900.0, "replay")


async def test_a_stamp_stays_until_the_next_claim(store):
    publish(store, Declaration(queue="mail", name="mail", replay_mode="manual"), mail=STRICT)
    job_id = await one(store)
    claim = await claim_one(store)
    publish(store, Declaration(queue="mail", name="mail"), mail=QueueRules(attempts=9))
    assert (await seen(store, job_id)).max_attempts == 2
    await ended(store, claim, NotEntered("x"))
    again = await claim_one(store)
    assert (again.max_attempts, again.lease, again.replay_mode) == (9, 90.0, "replay")


async def test_the_callers_own_budget_and_lease_go_before_the_rules(store):
    publish(store, mail=STRICT)
    await enqueued(store, new_job(budget=7), new_job(lease=600.0))
    first, second = (await catch(store, slots=2)).claims
    assert (first.max_attempts, first.lease) == (7, 30.0)
    assert (second.max_attempts, second.lease) == (2, 600.0)


async def test_publishing_one_queue_leaves_the_others(store):
    publish(store, mail=STRICT)
    publish(store, chat=QueueRules(attempts=9))
    publish(store)
    await one(store)
    assert (await claim_one(store)).max_attempts == 2


async def test_a_worker_decides_by_the_published_rules(store):
    rules = QueueRules(attempts=3, backoff=exponential(base=5, cap=600), max_age=60.0, priority=4, keep_completed=None)
    publish(store, mail=rules)
    assert (await catch(store)).rules == {"mail": rules}
    publish(store, mail=QueueRules(backoff=fixed(7)))
    assert (await catch(store)).rules["mail"].backoff == fixed(7)


async def test_a_queue_nobody_declared_is_decided_by_the_defaults(store):
    await one(store, "unheard-of")
    assert (await catch(store, "unheard-of")).rules == {"unheard-of": DEFAULTS}


async def test_the_age_boost_is_the_published_one(store, clock):
    publish(store, mail=QueueRules(age_boost=100.0, age_boost_cap=1000.0))
    [low] = await enqueued(store, new_job(priority=0))
    clock.advance(3600)
    await enqueued(store, new_job(priority=99))
    assert (await claim_one(store)).id == low


async def test_a_sweeper_decides_by_the_published_rules(store, clock):
    publish(store, mail=STRICT)
    await one(store)
    await sweep(store)
    clock.advance(11)
    await sweep(store)
    await claim_one(store)
    clock.advance(20)
    assert (await sweep(store)).rules == {"mail": STRICT}


async def test_whoever_shows_a_job_shows_it_by_the_published_rules(store):
    publish(store, mail=STRICT)
    assert (await seen(store, await one(store))).max_attempts == 2
    assert (await seen(store, await one(store, budget=6))).max_attempts == 6


@pytest.mark.parametrize(
    ("handlers", "callers", "expected"),
    [("high", None, "high"), ("high", "low", "high"), ("low", "critical", "critical"), (None, "medium", "medium")],
)
async def test_the_risk_is_the_higher_of_the_handlers_and_the_callers(store, handlers, callers, expected):
    """Whoever shows the job need not have the handler: its risk is published."""
    publish(store, Declaration(queue="mail", name="mail", risk=handlers))
    job_id = await one(store, details="{}" if callers is None else f'{{"risk":"{callers}"}}')
    assert (await seen(store, job_id)).risk == expected


async def test_the_ceiling_counts_what_was_given_back_as_never_spent(store, clock):
    publish(store, mail=STRICT)
    job_id = await one(store)
    for outcome in (NotEntered("x"), failed(), NotEntered("x"), failed()):
        claim = await claim_one(store)
        await ended(store, claim, outcome, STRICT)
        clock.advance(600)
    view = await seen(store, job_id)
    assert (view.state, view.reason, view.attempts, view.deferrals) == ("dead", "max_attempts", 2, 2)


async def test_a_worker_tells_under_which_rules_it_runs(store, clock):
    card = WorkerCard("worker-1", "host", 7, '["mail"]', '{"mail":"rules"}')
    store.write(upkeep.beat, card).result()
    started = store.now()
    clock.advance(5)
    store.write(upkeep.beat, card).result()
    [worker] = (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).workers
    assert (worker.id, worker.host, worker.pid, worker.queues) == ("worker-1", "host", 7, '["mail"]')
    assert (worker.declares, worker.started_at, worker.beat_at) == ('{"mail":"rules"}', started, store.now())
    clock.advance(61)
    assert (await store.read(health_scripts.facts(store.now(), store.boot(), silent_after=60.0))).workers == []


# --- layers: a settings file over the code, rule by rule


def publish_file(store: Store, file: str, *handlers: Declaration, code: QueueRules | None = None, **rules: Any) -> None:
    """Publish what a process says of the queue mail: what its file names, and its code, if it has any."""
    queues = {} if code is None else {"mail": code}
    publishing.publish(store, Publication(queues, handlers, {"mail": rules}, file))


async def in_force(store: Store) -> tuple[int, float, float | None]:
    rules = await store.read(queue_scripts.rules("mail"))
    return rules.attempts, rules.lease, rules.timeout


async def test_a_process_without_the_code_lays_the_rules_of_its_file_over_the_codes(store):
    publish(store, mail=STRICT)
    publish_file(store, "/ops/standfast.toml", attempts=9)
    assert await in_force(store) == (9, 30.0, 20.0)


async def test_a_process_without_the_code_that_comes_first_does_not_decide_the_rest(store):
    publish_file(store, "/ops/standfast.toml", attempts=9)
    assert await in_force(store) == (9, 90.0, 900.0)
    publish(store, mail=STRICT)
    assert await in_force(store) == (9, 30.0, 20.0)


async def test_a_rule_that_may_be_nothing_can_be_laid_over_too(store):
    publish(store, mail=STRICT)
    publish_file(store, "/ops/standfast.toml", timeout=None)
    assert await in_force(store) == (2, 30.0, None)


async def test_the_file_of_one_process_stays_over_the_code_of_another(store):
    publish_file(store, "/app/standfast.toml", code=STRICT, lease=45.0)
    publish_file(store, "/web/standfast.toml", code=STRICT)
    assert await in_force(store) == (2, 45.0, 20.0)


async def test_a_rule_that_is_gone_from_a_file_is_the_codes_again(store):
    publish_file(store, "/app/standfast.toml", code=STRICT, lease=45.0, attempts=9)
    publish_file(store, "/app/standfast.toml", lease=60.0)
    assert await in_force(store) == (9, 60.0, 20.0), "without the code, every other rule stays"
    publish_file(store, "/app/standfast.toml", code=STRICT, lease=60.0)
    assert await in_force(store) == (2, 60.0, 20.0)


async def test_a_process_with_a_handler_has_the_code_though_it_declares_no_rules(store):
    publish_file(store, "/app/standfast.toml", Declaration(queue="mail", name="mail"), attempts=9)
    assert await in_force(store) == (9, 90.0, 900.0)
    publish_file(store, "/app/standfast.toml", Declaration(queue="mail", name="mail"))
    assert await in_force(store) == (5, 90.0, 900.0)


async def test_of_two_files_that_name_one_rule_the_last_published_wins(store):
    publish_file(store, "/app/standfast.toml", code=STRICT, attempts=9, lease=45.0)
    publish_file(store, "/ops/standfast.toml", attempts=7)
    assert await in_force(store) == (7, 45.0, 20.0)


async def test_rules_of_a_version_without_layers_count_as_the_codes(store):
    """It writes the rules in force alone, also while the layers still say something else."""
    publish_file(store, "/app/standfast.toml", code=STRICT, attempts=9)
    published = text({"mail": QueueRules(attempts=4, lease=15.0)})
    store._engine.call(former, [published], seconds=5.0).result()  # noqa: SLF001 - as the former version did
    assert await in_force(store) == (4, 15.0, 900.0)
    publish_file(store, "/ops/standfast.toml", lease=60.0)
    assert await in_force(store) == (4, 60.0, 900.0)


@writes()
def former(round_: Round, published: Sequence[str]) -> Script[list[Any]]:
    for queues in published:
        yield "publish_queues", {"queues": queues, "now": round_.now}
    return [None] * len(published)


async def test_many_processes_that_publish_at_once_lose_no_layer(store):
    def publish_one(number: int) -> None:
        if number % 2:
            publish_file(store, f"/{number}/standfast.toml", attempts=9)
        else:
            publish_file(store, f"/{number}/standfast.toml", code=STRICT)

    await asyncio.gather(*(asyncio.to_thread(publish_one, number) for number in range(8)))
    assert await in_force(store) == (9, 30.0, 20.0)


async def test_a_queue_that_was_published_to_fold_goes_on_folding_until_it_is_published_anew(store):
    """An older library published every rule, its default `latest` among them."""
    older = text({"mail": {**msgspec.to_builtins(DEFAULTS), "coalesce": "latest"}})
    await store.write(publish_text, older)
    await enqueued(store, new_job(thread_key="t"))
    [folded] = await store.write_all(intake.enqueue, [new_job(thread_key="t")])
    assert folded.outcome == "coalesced"
    publish(store, mail=QueueRules())
    [kept] = await store.write_all(intake.enqueue, [new_job(thread_key="t")])
    assert kept.outcome == "accepted"


@writes()
def publish_text(round_: Round, given: Sequence[str]) -> Script[list[None]]:
    """Publish rules as another library wrote them."""
    for each in given:
        yield "ensure_queues", {"queues": text(["mail"])}
        yield "publish_queues", {"queues": each, "now": round_.now}
    return [None] * len(given)

"""A ready-made queue nobody declared has its profile in every process: in the view, at the claim, and in health."""

from __future__ import annotations

from standfast import Standfast, Transient
from standfast.application.wings import store_at
from standfast.spine import intake
from standfast.spine.claim_requests import Publication
from standfast.wings.queues import publishing
from tests.store.suite import catch, new_job
from tests.waiting import job_of


async def test_the_view_and_the_claim_of_an_undeclared_queue_follow_its_profile(sf):
    @sf.handler("identity_provision")
    def provision(_job):
        raise Transient("billing restarts")

    receipt = await sf.enqueue("identity_provision")
    assert (await job_of(sf, receipt.id)).max_attempts == 10
    await sf.worker().run_due()
    job = await job_of(sf, receipt.id)
    assert (job.view, job.attempts, job.max_attempts) == ("retry_pending", 1, 10)
    assert 4.0 <= (job.due_at - job.history[0].at).total_seconds() <= 6.0


async def test_health_warns_by_the_profile(sf):
    sf.handler("mesh_keys")(_refuse)
    sf.handler("mail")(_refuse)
    for queue in ("mesh_keys", "mail"):
        await sf.enqueue(queue, attempts=1)
    await sf.worker().run_due()
    assert [issue for issue in (await sf.health())["issues"] if "letter" in issue] == ["mesh_keys: 1 dead letter"]


def _refuse(_job: object) -> None:
    raise Transient("no")


async def test_a_process_without_the_application_claims_by_the_profile_and_a_publication_wins(url):
    store = store_at(url)
    await store.write_all(intake.enqueue, [new_job("identity_provision"), new_job("identity_provision")])
    first = await catch(store, "identity_provision")
    assert (first.claims[0].max_attempts, first.rules["identity_provision"].attempts) == (10, 10)
    publishing.publish(
        store, Publication({"identity_provision": Standfast(url).queue("identity_provision", attempts=2)}, [])
    )
    second = await catch(store, "identity_provision")
    assert second.claims[0].max_attempts == 2
    store.close()

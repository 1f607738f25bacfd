"""The reply is swallowed after the receiver has committed: what was done is not done again by guessing."""

from __future__ import annotations

import httpx2

from standfast import Effect, HttpEffect, fixed
from standfast.testing import drain
from tests.sending import WAIT, run_out, tried
from tests.waiting import effects_of, failure_of, job_of

MANY = 100


async def settled(app, receipts):
    """Let time pass and run until none of these waits any more."""
    while True:
        await drain(app)
        jobs = [await job_of(app, receipt.id) for receipt in receipts]
        if all(job.settled for job in jobs):
            return jobs
        app.clock.advance(WAIT)


async def test_without_a_key_nothing_is_sent_twice(app, spot):
    app.queue("feedback", destinations=["127.0.0.1"], backoff=fixed(WAIT), attempts=3, breaker=False)
    url = spot.url(do="close")
    jobs = await settled(app, [await app.enqueue_http("feedback", "POST", url, body=n) for n in range(MANY)])
    assert sorted(int(request["body"]) for request in spot.requests) == list(range(MANY))
    assert {(job.state, failure_of(job).reason_code, failure_of(job).landed) for job in jobs} == {
        ("dead", "unknown_commit_state", "maybe")
    }


async def test_with_a_key_it_is_sent_again_under_the_same_one(app, spot):
    app.queue("feedback", destinations=["127.0.0.1"], backoff=fixed(WAIT), attempts=3, breaker=False)
    url = spot.url(do=",".join(["close"] * MANY + ["answer"]))
    keys = [f"key-{n}" for n in range(MANY)]
    receipts = [await app.enqueue_http("feedback", "POST", url, body=1, idempotency_key=key) for key in keys]
    jobs = await settled(app, receipts)
    assert {job.state for job in jobs} == {"completed"}
    sent = [request["headers"]["idempotency-key"] for request in spot.requests]
    assert (len(sent), set(sent)) == (2 * MANY, set(keys))
    lines = [line for job in jobs for line in job.history]
    assert {line.possible_duplicate for line in lines if line.landed == "maybe"} == {True}


async def test_a_write_that_a_get_shows_is_found_before_the_repeat(app, spot):
    """The tool call times out after it made its ticket; the queue looks, and makes no second one."""
    made = []

    @app.handler(
        "feedback",
        replay="verify_first",
        effects=[
            HttpEffect(
                "ticket",
                spot.url(body='{"items": [{"key": "KEY", "open": true}]}').replace("KEY", "{key}"),
                json={"items": [{"key": "{key}"}]},
            )
        ],
    )
    async def make(job):
        made.append(job.attempt)
        raise TimeoutError("no answer")

    receipt = await app.enqueue("feedback", {"title": "broken"})
    job = await run_out(app, receipt)
    assert (job.state, job.warning, made) == ("completed", "post_write_recovery", [1])
    assert [request["method"] for request in spot.requests] == ["GET"]


async def test_what_each_reply_tells(app, spot):
    """404 and other contents mean absent, 500 and a private address that nobody named tell nothing."""
    looks = {}
    checks = {
        "gone": HttpEffect("gone", spot.url(status=404)),
        "other": HttpEffect("other", spot.url(body="something"), text="{payload.title}"),
        "deleted": HttpEffect("deleted", spot.url(status=410), status={404, 410}),
        "broken": HttpEffect("broken", spot.url(status=500)),
        "inside": HttpEffect("inside", "http://10.255.255.1/{payload.title}", timeout=2),
        "no_json": HttpEffect("no_json", spot.url(body="no json"), json={"a": 1}),
        "missing": HttpEffect("missing", spot.url() + "{payload.nothing}"),
    }
    runs = []
    for name, effect in checks.items():

        @app.handler("feedback", name=name, replay="verify_first", effects=[effect])
        async def fail(job):
            runs.append(job.queue)
            raise TimeoutError

        receipt = await app.enqueue("feedback", {"title": "ö/?x"}, handler=name)
        await tried(app, receipt)
        app.clock.advance(WAIT)
        job = await tried(app, receipt)
        looks[name] = failure_of(job).message if job.state == "held" else job.warning or job.view
    assert [looks[name] for name in ("gone", "other", "deleted")] == [
        "retry_pending",
        "retry_pending",
        "post_write_recovery",
    ]
    assert looks["broken"] == "retry_pending", "it is looked for again"
    for name, words in (
        ("inside", "is no public address"),
        ("no_json", "DecodeError"),
        ("missing", "the payload has no {payload."),
    ):
        assert words in looks[name]


async def test_an_effect_leaves_one_row_and_none_without_effects(app):
    @app.handler("feedback", name="plain")
    async def plain(_job):
        return None

    @app.handler("feedback", name="acting", effects=[Effect("one")])
    async def acting(job):
        await job.once("one", lambda: 7)

    for name, effects in (("plain", []), ("acting", [{"name": "one", "verdict": "verified", "receipt": 7}])):
        job = await tried(app, await app.enqueue("feedback", handler=name))
        assert (job.state, effects_of(job)) == ("completed", effects)


def recorded(spot):
    """Give a check that looks at what the receiver has written down."""
    return lambda _job, effect: effect.key in [request["body"] for request in spot.requests]


async def post(url, key):
    async with httpx2.AsyncClient(trust_env=False) as client:
        await client.post(url, content=key)


async def test_two_of_three_effects_landed_and_only_the_third_is_sent_again(app, spot):
    """The reply to the second is swallowed after the receiver has committed it."""
    url = spot.url(do="answer,close,answer")
    names = ("charge", "ship", "mail")

    @app.handler("feedback", replay="verify_first", effects=[Effect(name, recorded(spot)) for name in names])
    async def order(job):
        for name in names:
            async with job.effect(name) as effect:
                if not effect.done:
                    await post(url, effect.key)

    receipt = await app.enqueue("feedback")
    first = await tried(app, receipt)
    assert [line.landed for line in first.history] == ["maybe"]
    job = await run_out(app, receipt)
    assert (job.state, job.attempts) == ("completed", 2)
    assert [request["body"] for request in spot.requests] == [f"{receipt.id}.{name}" for name in names]


async def test_a_commit_that_comes_late_is_seen_before_the_next_repeat(app, spot):
    """The request is on its way when the first look says absent, and has arrived when the second one is made."""
    attempts = []

    @app.handler("feedback", replay="verify_first", effects=[Effect("ticket", recorded(spot))])
    async def make(job):
        attempts.append(job.attempt)
        raise TimeoutError("no answer")

    receipt = await app.enqueue("feedback")
    await tried(app, receipt)
    app.clock.advance(WAIT)
    assert (await tried(app, receipt)).view == "retry_pending"
    await post(spot.url(), f"{receipt.id}.ticket")
    job = await run_out(app, receipt)
    assert (job.state, job.warning, attempts) == ("completed", "post_write_recovery", [1, 2])

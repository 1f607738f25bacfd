"""Effects by themselves: templates, witnesses in files, what counts as an answer, and a result that is not verified."""

from __future__ import annotations

from typing import Any

import pytest

from standfast import ConfigurationError, Effect, FileEffect, HttpEffect, Job
from standfast.errors import Permanent, Transient, Uncertain
from standfast.failure.classify import of_exception, of_result
from standfast.job import Details
from standfast.rules import QueueRules
from standfast.spine import payload
from standfast.wings.effects import words as effects
from standfast.wings.effects.block import key_of
from standfast.wings.effects.ledger import Ledger
from standfast.wings.effects.templates import CannotTell, checked, filled
from standfast.wings.effects.words import EffectToVerify
from standfast.wings.http.sender import Sender
from standfast.wings.http.words import Reply
from tests.core.test_settle import claim

PAYLOAD = '{"path": "/a b", "deep": {"list": [1, {"x": "y"}]}, "nothing": null, "yes": true}'
JOB = Job(claim(payload=PAYLOAD, idempotency_key="k-1"), QueueRules())


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain", "plain"),
        ("{payload.path}", "/a b"),
        ("{payload.path}.txt", "</a b>.txt"),
        ("x{payload.deep.list.0}{payload.deep.list.1.x}", "x<1><y>"),
        ("{key}/{job.id}/{job.queue}/{job.idempotency_key}", "<job-1.ticket>/<job-1>/<mail>/<k-1>"),
        ("{{payload}} {key}", "{payload} <job-1.ticket>"),
        (lambda job: job.payload["path"], "/a b"),
        (7, 7),
    ],
)
def test_templates_are_filled_from_the_job(template, expected):
    found = filled(checked("url", template), JOB, "job-1.ticket", lambda value: f"<{value}>")
    assert found == expected


def replied(body: bytes) -> Reply:
    reply = Reply()
    reply.status, reply.body = 200, body
    return reply


@pytest.mark.parametrize(
    ("body", "place", "expected"),
    [
        (b'{"id": 1}', "{payload.deep.list.0}", "verified"),
        (b'{"id": "1"}', "{payload.deep.list.0}", "verified"),
        (b'{"id": 2}', "{payload.deep.list.0}", "absent"),
        (b'{"id": true}', "{payload.yes}", "verified"),
        (b'{"id": null}', "{payload.path}", "absent"),
    ],
)
def test_a_number_in_the_payload_is_found_as_a_number_and_as_text(body, place, expected):
    effect = HttpEffect("ticket", "https://example.org", json={"id": place})
    assert effect._judge(replied(body), JOB, EffectToVerify("ticket", "key")) == expected  # noqa: SLF001


def test_an_empty_text_is_found_nowhere():
    effect = HttpEffect("ticket", "https://example.org", text=lambda _job: "")
    with pytest.raises(CannotTell, match="empty"):
        effect._judge(replied(b"anything"), JOB, EffectToVerify("ticket", "key"))  # noqa: SLF001


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{payload.missing}", "the payload has no {payload.missing}: names there are path, deep, nothing, yes"),
        ("{payload.nothing}", "{payload.nothing} is NoneType in the payload, not text"),
        ("{payload.deep}", "{payload.deep} is dict in the payload, not text"),
        ("{payload.path.x}", "the payload has no {payload.path.x}: nothing is there"),
        ("{payload.deep.list.2}", "the payload has no {payload.deep.list.2}: nothing is there"),
        ("{payload.deep.list.x}", "the payload has no {payload.deep.list.x}: nothing is there"),
    ],
)
def test_what_the_payload_does_not_have_is_an_error(template, words):
    with pytest.raises(CannotTell) as caught:
        filled(template, JOB, "key")
    assert str(caught.value) == words


@pytest.mark.parametrize("template", ["{path}", "{job.payload}", "{job}", "{", "}", "{}", "{payload..a}", "{a}}"])
def test_a_template_that_cannot_be_filled_is_refused_at_once(template):
    with pytest.raises(ConfigurationError, match="known are"):
        checked("url", template)


async def looked(effect: Effect) -> Any:
    return await effect.look(JOB, EffectToVerify(effect.name, "job-1.ticket"), Sender())


@pytest.mark.parametrize(
    ("content", "witness", "expected"),
    [
        (b"", "needle", False),
        (b"..needle", "needle", True),
        (b"abcdneedlexyz", "needle", True),
        (b"needl", "needle", False),
    ],
)
async def test_a_witness_is_found_also_across_two_pieces(tmp_path, monkeypatch, content, witness, expected):
    monkeypatch.setattr(effects, "CHUNK", 3)
    (tmp_path / "file").write_bytes(content)
    assert await looked(FileEffect("file", tmp_path / "file", witness)) is expected


@pytest.mark.parametrize(
    ("mode", "witness", "there"), [("substring", "x", False), ("sha256", "0" * 64, False), ("absent", None, True)]
)
async def test_a_file_that_is_not_there(tmp_path, mode, witness, there):
    assert await looked(FileEffect("file", tmp_path / "none" / "file", witness, mode)) is there


async def test_an_empty_witness_witnesses_nothing(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotTell, match="every file contains"):
        await looked(FileEffect("file", tmp_path / "file", lambda _job: ""))


class Checker:
    async def __call__(self, job: Job, effect: EffectToVerify) -> str:
        return f"{job.id} {effect.key}"


async def aside(job: Job) -> str:
    return job.id


@pytest.mark.parametrize(
    ("verify", "expected"),
    [
        (lambda job: job.id, "job-1"),
        (lambda job, effect: f"{job.id} {effect.key}", "job-1 job-1.ticket"),
        (lambda _job, effect=None: effect.key, "job-1.ticket"),
        (lambda *given: len(given), 2),
        (lambda _job, own="mine": own, "mine"),
        (lambda _job, own="mine", effect=None: (own, effect), ("mine", None)),
        (lambda _job, *, own="mine": own, "mine"),
        (aside, "job-1"),
        (Checker(), "job-1 job-1.ticket"),
        (lambda job, _effect: aside(job), "job-1"),
    ],
)
async def test_a_check_takes_the_job_and_the_effect_if_it_wants_to(verify, expected):
    assert await looked(Effect("ticket", verify)) == expected


@pytest.mark.parametrize(("amended", "expected"), [(0, "job-1.ticket"), (2, "job-1~g2.ticket")])
def test_the_key_of_an_effect_is_the_same_until_the_payload_is_amended(amended, expected):
    nowhere: Any = None
    job = Job(held := claim(attempts=3, token=9, details=Details(amended=amended)), QueueRules())
    job.keep(Ledger(nowhere, held, payload.encode_value, ["ticket"]))
    assert (job.effect("ticket").key, key_of(job.identity, "ticket")) == (expected, expected)


@pytest.mark.parametrize(
    ("failed", "said", "landed"),
    [
        (of_result({"verified": False}), True, "maybe"),
        (of_result({"verified": {"ticket": "absent", "mail": True}}), True, "maybe"),
        (of_result({"success": False}), False, "maybe"),
        (of_exception(Uncertain("x")), True, "maybe"),
        (of_exception(Transient("x")), True, "no"),
        (of_exception(Permanent("x")), True, "no"),
        (of_exception(ValueError("x")), False, "maybe"),
        (of_exception(TimeoutError("x")), False, "maybe"),
    ],
)
def test_who_said_whether_it_landed(failed, said, landed):
    """What the handler says itself stands beside the ledger; what is concluded from an exception gives way to it."""
    assert (failed.said, failed.failure.landed) == (said, landed)

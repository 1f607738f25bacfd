"""Webhooks: who sent them, what they come to by their source's table, and what a table may say."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from standfast.errors import ConfigurationError
from standfast.wings.ingest import signatures
from standfast.wings.ingest.arrival import Arrival, Ignored, Refused, delivery, name
from standfast.wings.ingest.paths import MISSING, value_at
from standfast.wings.ingest.sources import Source, by_hand, source
from standfast.wings.ingest.triggers import EVENTS
from standfast.wings.ingest.verbs import read
from tests.core.deliveries import (
    FORK,
    KEY,
    SECRET,
    WHSEC,
    encoded,
    event,
    github,
    hub,
    pull_request,
    webhook,
    workflow_run,
)

NOW = 1_800_000_000.0
BODY = encoded({"type": "paid", "data": {"id": 5, "tenant": "acme", "level": 90}})


def made(kind: str = "standard-webhooks", secrets: tuple[str, ...] = (WHSEC,), **table: Any) -> Source:
    given = {"kind": kind, "queue": "billing", **table}
    found = by_hand("billing", {"billing": given})
    assert found is not None
    return Source(name=found.name, table=found.table, secrets=secrets)


def came_to(found: Source, headers: dict[str, str], body: bytes = BODY) -> Any:
    return read(delivery(headers, body), found, NOW)


# --- signatures


@pytest.mark.parametrize(
    ("given", "secrets", "fine"),
    [
        (hub(BODY), (SECRET,), True),
        (hub(BODY).upper().replace("SHA256=", "sha256="), (SECRET,), True),
        (hub(BODY, "old"), ("new", "old"), True),
        (hub(BODY, "new"), ("new", "old"), True),
        (hub(BODY, "other"), ("new", "old"), False),
        (hub(BODY + b" "), (SECRET,), False),
        (hub(BODY, ""), (SECRET,), False),
        ("sha256=", (SECRET,), False),
        ("sha1=abc", (SECRET,), False),
        ("", (SECRET,), False),
        ("sha256=é" + "0" * 63, (SECRET,), False),
    ],
)
def test_a_hash_over_the_body(given, secrets, fine):
    refused = signatures.hub(delivery({"X-Hub-Signature-256": given}, BODY), secrets)
    assert (refused is None) is fine
    assert refused is None or refused.status == 401


def signed(**changes: Any) -> dict[str, str]:
    return {**webhook(BODY, NOW), **changes}


STANDARD = [
    (signed(), (WHSEC,), True),
    (signed(), (KEY,), True),
    (signed(), ("whsec_b3RoZXI=", WHSEC), True),
    (webhook(BODY, NOW, key=b"plain text"), ("plain text",), True),
    (signed(**{"webhook-signature": "v1,AAAA v2,x " + signed()["webhook-signature"]}), (WHSEC,), True),
    (webhook(BODY, NOW - 299), (WHSEC,), True),
    (webhook(BODY, NOW + 299), (WHSEC,), True),
    (webhook(BODY, NOW - 301), (WHSEC,), False),
    (webhook(BODY, NOW + 301), (WHSEC,), False),
    (webhook(BODY + b" ", NOW), (WHSEC,), False),
    (signed(**{"webhook-id": "msg_2"}), (WHSEC,), False),
    (signed(**{"webhook-timestamp": str(int(NOW) + 1)}), (WHSEC,), False),
    (signed(**{"webhook-timestamp": "9" * 5000}), (WHSEC,), False),
    (signed(**{"webhook-timestamp": "-1"}), (WHSEC,), False),
    (signed(**{"webhook-timestamp": "١٢٣"}), (WHSEC,), False),
    (signed(**{"webhook-signature": ""}), (WHSEC,), False),
    (signed(**{"webhook-signature": "v1,"}), (WHSEC,), False),
    (signed(**{"webhook-signature": "v1a" + signed()["webhook-signature"][2:]}), (WHSEC,), False),
    ({}, (WHSEC,), False),
]


@pytest.mark.parametrize(("headers", "secrets", "fine"), STANDARD)
def test_a_signature_of_standard_webhooks(headers, secrets, fine):
    refused = signatures.standard(delivery(headers, BODY), secrets, NOW)
    assert (refused is None) is fine
    assert refused is None or refused.status == 401


@pytest.mark.parametrize(
    ("headers", "fine"),
    [
        ({"Authorization": f"Bearer {SECRET}"}, True),
        ({"authorization": f"bearer {SECRET}"}, True),
        ({"Authorization": SECRET}, False),
        ({"Authorization": "Bearer "}, False),
        ({"Authorization": "Bearer other"}, False),
        ({"Authorization": f"Basic {SECRET}"}, False),
        ({}, False),
    ],
)
def test_a_token(headers, fine):
    assert (signatures.bearer(delivery(headers, b""), (SECRET,)) is None) is fine


def test_a_token_in_a_header_of_its_own():
    assert signatures.bearer(delivery({"X-Gitlab-Token": SECRET}, b""), (SECRET,), "x-gitlab-token") is None
    assert signatures.bearer(delivery({}, b""), (SECRET,), "x-gitlab-token") is not None


def test_nothing_is_read_before_the_signature_fits():
    """A body that is no JSON is a refused signature first."""
    found = came_to(made(), webhook(b"x", NOW, "msg_1", b"another key"), b"{")
    assert isinstance(found, Refused)
    assert found.status == 401


# --- GitHub's own


def of_github(headers: dict[str, str], body: bytes, **table: Any) -> Any:
    found = by_hand("github", {"github": table})
    assert found is not None
    return read(delivery(headers, body), Source(name="github", table=found.table, secrets=(SECRET,)), NOW)


def test_githubs_delivery_is_checked_and_read():
    body = encoded(event("opened", pull_request=pull_request()))
    assert isinstance(of_github(github("pull_request", body), body), Arrival)
    assert of_github(github("pull_request", body, secret="other"), body).status == 401  # noqa: S106 - of this test
    assert of_github(github("pull_request", body, secret=None), body).status == 401
    assert of_github(github("pull_request", body), body + b" ").status == 401
    assert of_github(github("pull_request", body, ""), body).status == 400
    assert isinstance(of_github(github("ping", b"{"), b"{"), Ignored)


@pytest.mark.parametrize("body", [b"{", b"[1]", b'{"a": 1, "a": 2}', b"[" * 100_000, b"\xff", b'{"a": NaN'])
def test_a_body_that_is_no_json_object_is_refused(body):
    assert of_github(github("issues", body), body).status == 400


def test_github_also_sends_forms():
    body = b"payload=%7B%22action%22%3A+%22opened%22%2C+%22issue%22%3A+%7B%22number%22%3A+3%7D%7D"
    headers = {**github("issues", body), "Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    assert of_github(headers, body).payload["number"] == 3


def test_a_form_of_too_many_fields_is_refused():
    body = b"&".join(b"field%d=1" % n for n in range(20))
    headers = {**github("issues", body), "Content-Type": "application/x-www-form-urlencoded"}
    refused = of_github(headers, body)
    assert (refused.status, "more than 10 fields" in refused.detail) == (400, True)


RUN = {
    **workflow_run(head_repository=FORK, event="pull_request"),
    "pull_requests": [{"number": 3, "base": {"repo": {"id": 1}}}],
    "check_suite": {"head_branch": "main"},
    "app": {"name": "ci"},
}
STATUS: dict[str, Any] = {
    "state": "failure",
    "branches": [{"name": "main"}],
    "commit": {"html_url": "https://github.com/c"},
    "sha": "abc",
}
PART: dict[str, Any] = {**pull_request(body="@bob"), "state": "approved", "commit_id": "abc"}
NAMED = ("pull_request", "issue", "review", "comment", "discussion")
PARTS: dict[str, Any] = dict.fromkeys(NAMED, PART)
EVENT = event("completed", workflow_run=RUN, check_run=RUN, check_suite=RUN, **STATUS, **PARTS)
ODD: tuple[Any, ...] = ({}, {"a": []}, [], [{}], [[]], 5, -1.5, True, None, "", "x" * 3000, "\0")


def with_odd_values(value: Any) -> Iterator[Any]:
    """Give a value with one odd thing in it, at every place."""
    yield from ODD
    if isinstance(value, dict):
        for name, inside in value.items():
            yield from ({**value, name: odd} for odd in with_odd_values(inside))
    if isinstance(value, list):
        for place, inside in enumerate(value):
            yield from ([*value[:place], odd, *value[place + 1 :]] for odd in with_odd_values(inside))


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("action", ["completed", "submitted", "created"])
def test_an_event_with_values_of_any_type_has_an_answer(name, action):
    """GitHub signs what an app of a stranger reports, so that these come with a signature that is right."""
    parts = {name, *NAMED, *STATUS, "repository", "sender", "action"}
    whole = {part: value for part, value in {**EVENT, "action": action}.items() if part in parts}
    for odd in with_odd_values(whole):
        body = encoded(odd)
        found = of_github(github(name, body), body, login="bob")
        assert isinstance(found, Arrival | Ignored | Refused)


# --- by the table


def test_a_delivery_becomes_a_job_by_paths():
    found = came_to(
        made(
            queue="$.type",
            queues=["paid", "refunded"],
            priority="$.data.level",
            thread_key="$.data.tenant",
            payload={"invoice": "$.data.id", "missing": "$.data.nothing"},
            labels={"tenant": "$.data.tenant", "stage": "live", "missing": "$.nothing"},
            handler="book",
        ),
        signed(),
    )
    assert found == Arrival(
        queue="paid",
        payload={"invoice": 5, "missing": None},
        key="msg_1",
        thread_key="acme",
        priority=90,
        handler="book",
        labels={"source": "billing", "tenant": "acme", "stage": "live"},
    )


def test_without_more_the_whole_body_is_the_payload():
    found = came_to(made(), signed())
    assert (found.queue, found.key, found.payload["data"]["id"]) == ("billing", "msg_1", 5)
    assert (found.priority, found.thread_key, found.handler) == (None, None, None)


@pytest.mark.parametrize(
    ("level", "priority"),
    [(7, 7), (-3, -3), ("ci_failure_master", 100), ("unheard of", None), (True, None), (1.5, None), (2**40, None)],
)
def test_a_priority_is_a_number_or_the_name_of_a_trigger(level, priority):
    body = encoded({"level": level})
    assert came_to(made(priority="$.level"), webhook(body, NOW), body).priority == priority


@pytest.mark.parametrize("named", ["secret_queue", None, 5, ["paid"], ""])
def test_a_body_names_none_but_the_queues_it_may(named):
    body = encoded({"type": named})
    found = came_to(made(queue="$.type", queues=["paid"]), webhook(body, NOW), body)
    assert (found.status, "not one of this source's queues" in found.detail) == (422, True)


def test_plain_json_has_its_key_where_the_table_says():
    headers = {"X-Hub-Signature-256": hub(BODY)}
    plain = made("json", (SECRET,))
    assert came_to(plain, headers).key is None
    assert came_to(made("json", (SECRET,), idempotency_key="$.data.id"), headers).key == "5"
    assert came_to(made("json", (SECRET,), idempotency_key="$.nothing"), headers).status == 422
    assert came_to(plain, {}).status == 401
    other = made("json", (SECRET,), signature_header="Linear-Signature")
    assert isinstance(came_to(other, {"Linear-Signature": hub(BODY).removeprefix("sha256=")}), Arrival)


def test_without_secrets_nobody_is_asked():
    assert isinstance(came_to(made("json", ()), {}), Arrival)


def test_a_delivery_of_standard_webhooks_has_an_id_also_unsigned():
    assert came_to(made(secrets=()), {}).status == 400
    assert came_to(made(secrets=()), {"Webhook-Id": "x"}).key == "x"


@pytest.mark.parametrize(
    ("given", "expected"),
    [("abc", "abc"), ("x" * 200, "x" * 200)],
)
def test_a_key_that_can_be_stored_stays(given, expected):
    assert name(given) == expected


@pytest.mark.parametrize("given", ["", "x" * 201, "a\nb", "\ud800"])
def test_a_key_that_cannot_be_stored_is_known_by_its_hash(given):
    assert name(given).startswith("sha256:")
    assert len(name(given)) == 71


# --- CloudEvents

CLOUD = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.paid", "data": {"order": 5}}
BEARER = {"Authorization": f"Bearer {SECRET}"}


def cloud(headers: dict[str, str], body: bytes, **table: Any) -> Any:
    return came_to(made("cloudevents", (SECRET,), **table), {**BEARER, **headers}, body)


def test_an_event_in_the_body():
    [found] = cloud({"Content-Type": "application/cloudevents+json; charset=utf-8"}, encoded(CLOUD), payload="$.data")
    assert (found.key, found.payload) == ("/shop 1", {"order": 5})


def test_an_event_in_the_headers():
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": "order.p%C3%A4id"}
    [found] = cloud({**headers, "Content-Type": "application/json"}, b'{"order": 5}')
    assert found.key == "/shop 1"
    wanted = {**CLOUD, "type": "order.päid", "datacontenttype": "application/json"}
    assert found.payload == wanted
    [text] = cloud({**headers, "Content-Type": "text/plain"}, b"hello")
    assert text.payload["data"] == "hello"
    [raw] = cloud({**headers, "Content-Type": "image/png"}, b"\xff\xfe")
    assert base64.b64decode(raw.payload["data_base64"]) == b"\xff\xfe"
    [bare] = cloud(headers, b"")
    assert "data" not in bare.payload


@pytest.mark.parametrize("signature", ["hmac-sha256", "standard-webhooks"])
def test_whoever_caught_a_signed_body_makes_no_other_event_of_it(signature):
    """What stands in headers is not signed: under the same signature it could say anything."""
    body = encoded(CLOUD)
    hashed = {"X-Hub-Signature-256": hub(body)}
    signed = hashed if signature == "hmac-sha256" else webhook(body, NOW)
    source = made("cloudevents", (SECRET, WHSEC), signature=signature)
    [found] = came_to(source, {**signed, "Content-Type": "application/cloudevents+json"}, body)
    assert found.key == "/shop 1"
    forged = {"ce-specversion": "1.0", "ce-id": "2", "ce-source": "/shop", "ce-type": "order.deleted"}
    refused = came_to(source, {**signed, **forged, "Content-Type": "application/json"}, body)
    assert isinstance(refused, Refused)
    assert refused.status == 415


def test_several_events_in_one_body():
    headers = {"Content-Type": "application/cloudevents-batch+json"}
    found = cloud(headers, encoded([CLOUD, {**CLOUD, "id": "2"}]))
    assert [each.key for each in found] == ["/shop 1", "/shop 2"]
    assert cloud(headers, encoded([CLOUD, {}])).status == 400
    assert cloud(headers, encoded(CLOUD)).status == 400
    assert cloud(headers, b"[]").status == 400


@pytest.mark.parametrize("lacks", ["id", "source", "type", "specversion"])
def test_an_event_has_all_it_needs(lacks):
    body = {name: value for name, value in CLOUD.items() if name != lacks}
    assert cloud({"Content-Type": "application/cloudevents+json"}, encoded(body)).status == 400


def test_events_of_two_sources_never_share_a_key():
    kind = {"Content-Type": "application/cloudevents+json"}
    [one] = cloud(kind, encoded({**CLOUD, "source": "/a b", "id": "c"}))
    [other] = cloud(kind, encoded({**CLOUD, "source": "/a", "id": "b c"}))
    assert one.key != other.key


def test_an_event_without_its_token_is_refused():
    found = came_to(made("cloudevents", (SECRET,)), {"Content-Type": "application/cloudevents+json"}, encoded(CLOUD))
    assert isinstance(found, Refused)
    assert found.status == 401


# --- paths


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", {"a": {"b": [1, {"c": 2}]}, "odd name": 3, "x-y": 4}),
        ("$.a.b[0]", 1),
        ("$.a.b[1].c", 2),
        ("$['odd name']", 3),
        ("$.x-y", 4),
        ("$.a.b[2]", MISSING),
        ("$.a.b.c", MISSING),
        ("$.a[0]", MISSING),
        ("$.nothing.at.all", MISSING),
    ],
)
def test_a_path_names_one_value(path, expected):
    found = value_at(path, {"a": {"b": [1, {"c": 2}]}, "odd name": 3, "x-y": 4})
    assert found is MISSING if expected is MISSING else found == expected


@pytest.mark.parametrize(
    "path", ["$..a", "$.*", "$[*]", "$.a[?(@.b)]", "$.a[-1]", "$.a[0:2]", "$a", "$.", "$.a b", "$['a", "$" + ".a" * 300]
)
def test_more_than_that_is_no_path(path):
    with pytest.raises(ConfigurationError, match="is not a path"):
        value_at(path, {})


# --- what a table may say


@pytest.mark.parametrize(
    ("source_name", "table", "why"),
    [
        ("github", {"login": "bob"}, "has no secret, so it accepts nothing"),
        ("github", {"secret_env": "MISSING"}, r"the secret in \$MISSING is missing"),
        ("github", {"secret_env": "EMPTY"}, r"the secret in \$EMPTY is missing"),
        ("github", {"secret_env": ["GIVEN", "MISSING"]}, r"the secret in \$MISSING is missing"),
        ("github", {"secret_env": "BROKEN"}, r"\$BROKEN_FILE cannot be read"),
        ("github", {"secret_env": "GIVEN", "unsigned": True}, "exclude each other"),
        ("github", {"secret": "abc"}, "unknown setting 'secret' .*'secret_env'"),
        ("github", {"secret_env": "GIVEN", "triggers": {"menton": 5}}, "unknown trigger 'menton' .*'mention'"),
        ("github", {"secret_env": "GIVEN", "triggers": {"mention": True}}, "takes a priority, or false"),
        ("x", {"queue": "q", "unsigned": True}, "kind"),
        ("x", {"kind": "json", "unsigned": True}, "queue"),
        ("x", {"kind": "xml", "queue": "q", "unsigned": True}, "kind|xml"),
        ("x", {"kind": "json", "queue": "$.q", "unsigned": True}, "queues must list"),
        ("x", {"kind": "json", "queue": "q", "payload": "data", "unsigned": True}, "payload takes paths"),
        ("x", {"kind": "json", "queue": "q", "thread_key": "$..a", "unsigned": True}, "is not a path"),
        ("x", {"kind": "json", "queue": "q", "priority": "high", "unsigned": True}, "priority takes a number"),
        ("x", {"kind": "cloudevents", "queue": "q", "idempotency_key": "$.id", "unsigned": True}, "already has a key"),
    ],
)
def test_a_table_that_could_not_work_is_refused_by_name(source_name, table, why):
    environment = {"GIVEN": "x", "EMPTY": " ", "BROKEN_FILE": "/no/such/file"}
    with pytest.raises(ConfigurationError, match=rf"\[ingest\.{source_name}\].*(?:{why})"):
        source(source_name, {source_name: table}, environment)


def test_secrets_come_from_the_environment_or_from_files(tmp_path):
    (tmp_path / "secret").write_text("from a file\n")
    environment = {"ONE": "from the environment", "TWO_FILE": str(tmp_path / "secret")}
    found = source("github", {"github": {"secret_env": ["ONE", "TWO"]}}, environment)
    assert found is not None
    assert found.secrets == ("from the environment", "from a file")
    found = source("github", {"github": {"unsigned": True}}, {})
    assert found is not None
    assert found.secrets == ()
    assert source("other", {}, {}) is None

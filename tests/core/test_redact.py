"""Secrets are hidden by name and by shape; what is none stays readable, and nothing is too much."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast import redact
from standfast.redact import CUT, DEEPEST, LONGEST_TEXT, MARGIN, MOST_VALUES, is_secret_name, redacted, redacted_text

HASH = "3f" * 32
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "name",
    [
        *("password", "Password2", "db_password", "PASSWD", "passphrase", "pin", "secret", "client_secret", "token"),
        *("accessToken", "X-Api-Key", "apikey", "api_key", "AWSAccessKey", "private-key", "Authorization"),
        *("Proxy-Authorization", "Cookie", "set-cookie", "credentials", "X-Hub-Signature-256"),
        *("pass", "db_pass", "passwords", "passcode", "apiKeys", "encryption_key", "ssh-key", "jwt", "creds"),
        *("dbpassword", "ACCESSTOKEN", "z" * 300 + "password", "password_" + "z" * 300),
    ],
)
def test_a_name_tells_a_secret(name):
    assert is_secret_name(name)
    assert redacted({name: "hunter2", "other": "hunter2"}) == {name[:200]: "***", "other": "hunter2"}


@pytest.mark.parametrize(
    "name",
    [
        *("", "tokens", "max_tokens", "token_count", "tokenType", "token_expires_at", "secret_name", "secretary"),
        *("author", "keyboard", "key", "idempotency_key", "pinned", "payload_sha256", "compass", "opinion"),
        *("pass_rate", "bypass", "passed", "keys"),
    ],
)
def test_a_name_that_only_sounds_like_one_hides_nothing(name):
    assert not is_secret_name(name)
    assert redacted({name: "plain"}) == {name: "plain"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("sent Bearer abcdefgh12 twice", "sent Bearer *** twice"),
        ("basic dXNlcjpwYXNz", "basic ***"),
        (f"got {JWT}.", "got ***."),
        (f"key:\n{PEM}\nend", "key:\n***\nend"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE cut", "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("ghp_abcdefghijklmnopqrst123456", "***"),
        ("xoxb-1234567890-abc", "***"),
        ("sk_live_abcdefghij1234", "***"),
        ("sk-proj-abcdefghijklmnop1234", "***"),
        ("postgres://bob:hunter2@db/x", "postgres://***@db/x"),
        ("https://:hunter2@db/x", "https://***@db/x"),
        ("https://s3cr3t@api.example/x", "https://***@api.example/x"),
        ("https://s3cr3t:@api.example/x", "https://***@api.example/x"),
        ("https://bob:p@ss@api.example/x", "https://***@api.example/x"),
        ("https://h/x?X-Amz-Signature=abc&pin=1234#top", "https://h/x?X-Amz-Signature=***&pin=***#top"),
        ("https://h/x?next=%2Fy%3Fotp%3D1234%26n%3D2", "https://h/x?next=%2Fy%3Fotp%3D***%26n%3D2"),
        ("pin=1234&n=2", "pin=***&n=2"),
        ("n=2&pass%77ord=a+b", "n=2&pass%77ord=***"),
        ("https://h/x?token=abc&page=2", "https://h/x?token=***&page=2"),
        ("db_password = 'a b', user=ann", "db_password = ***, user=ann"),
        ('{"client_secret": "a b", "n": 1}', '{"client_secret": ***, "n": 1}'),
        ("Cookie: a=b; c=d\nHost: x", "Cookie: ***\nHost: x"),
        (r'{"password":"ab\"cd","n":1}', '{"password":***,"n":1}'),
        (r"{'password': 'ab\'cd', 'n': 1}", "{'password': ***, 'n': 1}"),
        (r'"{\"token\": \"a b\", \"n\": 1}"', r'"{\"token\": ***, \"n\": 1}"'),
        (r'"{\\\"pwd\\\": \\\"a b\\\", \\\"n\\\": 1}"', r'"{\\\"pwd\\\": ***, \\\"n\\\": 1}"'),
        ("DB_PASS=abc USER=ann", "DB_PASS=*** USER=ann"),
        ("psql --password hunter2 --quiet", "psql --password *** --quiet"),
        ("whsec_MfKQ9r8GKYqrTwjU", "***"),
        ("a" * 60 + "password=hunter2", "a" * 60 + "password=***"),
        ("a-" * 60 + "token2: hunter2", "a-" * 60 + "token2: ***"),
        (f"private_key: {PEM}, more", "private_key: ***, more"),
        (HASH, "***"),
        ("wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY12", "***"),
    ],
)
def test_a_shape_tells_a_secret(text, shown):
    assert redacted_text(text) == shown
    assert redacted([text]) == [shown]


@pytest.mark.parametrize(
    "text",
    [
        "the token expired; ask for another",
        "basic checks failed",
        "ann@example.com",
        "job 018f2c3e-7c4a-7e6b-9b1f-000000000001",
        f"payload sha256:{HASH}",
        "/usr/Local/lib/python3/site-packages/foo/bar/baz/quux.py",
        "a_very_long_Name_of_some_function_with_number_1_in_it",
        "https://example.com:8443/a",
        "x" * 200,
    ],
)
def test_what_is_no_secret_stays(text):
    assert redacted_text(text) == text


def test_addresses_of_people_are_hidden_when_asked_for():
    assert redacted_text("to ann@example.com.", emails=True) == "to ***."
    assert redacted({"to": ["ann@example.com"]}, emails=True) == {"to": ["***"]}


def test_all_under_a_secret_name_is_hidden_and_references_stay():
    value = {
        "credentials": {"user": "ann", "list": ["a", 1, 2.5, None, True], "deep": {"x": "y"}},
        "password": {"$secret": "crm"},
        "token": [{"$secret": "crm"}, {"$secret": "crm", "x": "y"}],
        "pin": 1234,
    }
    assert redacted(value) == {
        "credentials": {"user": "***", "list": ["***", "***", "***", None, True], "deep": {"x": "***"}},
        "password": {"$secret": "crm"},
        "token": [{"$secret": "crm"}, {"$secret": "***", "x": "***"}],
        "pin": "***",
    }


def test_hashes_stay_where_their_key_names_them():
    assert redacted({"payload_sha256": HASH, "head": HASH, "note": HASH}) == {
        "payload_sha256": HASH,
        "head": HASH,
        "note": "***",
    }


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"name": "password", "value": "hunter2"}, {"name": "password", "value": "***"}),
        ({"Name": "X-Api-Key", "Value": ["hunter2"]}, {"Name": "X-Api-Key", "Value": ["***"]}),
        ({"key": "pin", "value": 1234}, {"key": "pin", "value": "***"}),
        (
            {"headers": [["Authorization", "hunter2"], ["Host", "h"]]},
            {"headers": [["Authorization", "***"], ["Host", "h"]]},
        ),
        (["--password", "hunter2", "--verbose"], ["--password", "***", "--verbose"]),
        ({"name": "rotate_token", "queue": "mail"}, {"name": "rotate_token", "queue": "mail"}),
        (["token", "secret", "mail"], ["token", "secret", "mail"]),
    ],
)
def test_a_name_beside_its_value_tells_a_secret(value, shown):
    assert redacted(value) == shown


def test_names_of_ones_own_hide_their_values_too(monkeypatch):
    monkeypatch.setattr("standfast.redact._also", redact._Also())  # noqa: SLF001
    redact.hide_also(["iban", "dateOfBirth", "line2", " "])
    assert redacted({"customer_iban": "DE1", "date-of-birth": "1.1.", "line2": "x", "line": "y", "n": 1}) == {
        "customer_iban": "***",
        "date-of-birth": "***",
        "line2": "***",
        "line": "y",
        "n": 1,
    }
    assert redacted({"name": "IBAN", "value": "DE1"})["value"] == "***"
    assert redacted_text('{"iban": "DE1", "n": 1} and /x?date_of_birth=1.1.') == (
        '{"iban": ***, "n": 1} and /x?date_of_birth=***'
    )


def test_a_hash_that_a_short_secret_could_be_guessed_by_is_keyed():
    whole = {
        "payload_sha256": HASH,
        "coalesced": {"last": [{"sha256": HASH}]},
        "head": HASH,
        "snapshot": f"sha256:{HASH}",
    }
    shown = redacted(whole, keyed_hashes=True)
    assert HASH not in str({**shown, "snapshot": None})
    assert shown["payload_sha256"] == shown["coalesced"]["last"][0]["sha256"] == redact.keyed(HASH)
    assert shown["snapshot"] == whole["snapshot"]
    assert redact.keyed(HASH) != redact.keyed("3e" * 32)


def test_a_secret_in_a_key_is_hidden_too():
    assert redacted({JWT: 1}) == {"***": 1}


def test_what_is_deep_large_or_strange_is_cut():
    deep: list[object] = []
    deep.append(deep)
    assert str(redacted(deep)) == "[" * DEEPEST + repr(CUT) + "]" * DEEPEST
    assert len(redacted(["x"] * (MOST_VALUES * 3))) == MOST_VALUES
    assert len(redacted({str(n): n for n in range(MOST_VALUES * 3)})) == MOST_VALUES
    assert redacted({"x": object(), 3: "y"}) == {"x": "<object>", "3": "y"}
    assert redacted_text("x " * LONGEST_TEXT) == "x " * (LONGEST_TEXT // 2) + CUT


def test_a_secret_that_the_cut_falls_into_does_not_show_its_beginning():
    before = "x" * 30 + " "
    text = before * (LONGEST_TEXT // 31) + "postgres://bob:hunter2hunter2@db/" + " y" * 500
    for shift in range(40):
        assert "hunter" not in redacted_text("z" * shift + text)


def test_nor_does_one_where_so_much_was_hidden_that_there_is_room():
    whole = LONGEST_TEXT + MARGIN
    text = ("token=" + "q" * 2000 + " y" * whole)[: whole - 24] + " postgres://bob:hunter2hunter2@db/"
    assert "hunter" not in redacted_text(text)


@pytest.mark.timeout(8)  # a pattern that looks at everything from everywhere takes far longer
@pytest.mark.parametrize(
    "hostile",
    [
        "password ",
        "://a:",
        "-----BEGIN PRIVATE KEY",
        "a@",
        "Bearer ",
        "token",
        "'",
        "-",
        "a",
        "a-password",
        "a=",
        "&a=",
        "%26a%3D",
    ],
)
def test_any_text_costs_linear_time(monkeypatch, hostile):
    monkeypatch.setattr("standfast.redact.LONGEST_TEXT", 40_000)
    assert len(redacted_text(hostile * 40_000, emails=True)) < 50_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=30)
@given(JSON, JSON)
def test_a_planted_secret_never_shows(around, beside):
    value = {"around": around, "auth_token": [beside, "hunter2hunter2"], "list": [{"Cookie": {"a": "hunter2hunter2"}}]}
    assert "hunter2" not in repr(redacted(value))

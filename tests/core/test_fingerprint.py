"""Failures of one cause have one fingerprint, today and in years."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.failure import Class, Failure, Landed
from standfast.failure.fingerprint import LONGEST_NORMAL_FORM, fingerprint, normal_form


def failure(message: str, code: str = "max_attempts", kind: str | None = "ConnectError", **given: object) -> Failure:
    fields = {"cls": Class.TRANSIENT, "landed": Landed.NO, "reason_code": code, "error_kind": kind, "message": message}
    return Failure(**{**fields, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "bare"),
    [
        ("order 8842 not found", "order # not found"),
        ("order A-8842 not found", "order # not found"),
        ("HTTP 503: 10.0.0.7:8443 said no after 1.5s", "HTTP # said no after #"),
        ("can't open 'a b', isn't there", "can't open #, isn't there"),
        ('no "tenant" in `table`', "no # in #"),
        ("GET https://x.y/z?q=a failed", "GET # failed"),
        ("mail to ann.b@example.com bounced", "mail to # bounced"),
        ("at 2026-11-16T02:49:55.123Z it broke", "at # it broke"),
        ("at 2026-11-16 02:49:55+00:00 it broke", "at # it broke"),
        ("Mon, 16 Nov 2026 02:49:55 GMT it broke", "# it broke"),
        ("Mon Nov 16 02:49:55 2026 it broke", "# it broke"),
        ("<Foo object at 0x7fa1ce>", "<Foo object at #>"),
        ("job 018f2c3e-7c4a-7e6b-9b1f-00000000000a died", "job # died"),
        ("row deadbeef-cafe-babe-face-abcdefabcdef died", "row # died"),
        ("commit deadbeefcafe gone", "commit # gone"),
        ("connect to fe80::abcd or [::1]:80", "connect to # or [#]:#"),
        ("/var/lib/app/x.db: disk full", "#: disk full"),
        (r"C:\Users\bob\x.txt missing", "# missing"),
        ("rows 1, 2, 3 collide", "rows # collide"),
        ("two\r\n lines\tof  text ", "two lines of text"),
        ("may be and/or sat on std::string", "may be and/or sat on std::string"),
        ("connection refused", "connection refused"),
        ("", ""),
    ],
)
def test_what_varies_is_taken_out(message, bare):
    assert normal_form(message) == bare


@pytest.mark.parametrize(
    ("queue", "handler", "died", "expected"),
    [
        ("mail", "send", failure("order 8842 not found"), "1-e67c53a80a1368c5"),
        ("mail", "send", failure("order 17 not found", landed=Landed.MAYBE, cls=Class.UNKNOWN), "1-e67c53a80a1368c5"),
        ("mail", "send", failure("", kind=None), "1-00f556951b9cdd5a"),
        ("größe", "send", failure("Größe «x» 日本 \ud800"), "1-400985100a4123b3"),
    ],
)
def test_it_is_the_same_in_every_version(queue, handler, died, expected):
    """A changed value here groups old letters apart from new ones: raise VERSION instead, and keep these."""
    assert fingerprint(queue, handler, died) == expected


def test_it_tells_causes_apart():
    told = {
        fingerprint("mail", "send", failure("order 1 not found")),
        fingerprint("post", "send", failure("order 1 not found")),
        fingerprint("mail", "other", failure("order 1 not found")),
        fingerprint("mail", "send", failure("order 1 not found", "timeout")),
        fingerprint("mail", "send", failure("order 1 not found", kind="ReadError")),
        fingerprint("mail", "send", failure("order 1 not paid")),
        fingerprint("mails", "end", failure("order 1 not found")),
    }
    assert len(told) == 7


WORDS = st.sampled_from(
    ["order", "HTTP", "at", "Nov", "Mon,", "row", "can't", "x_", "(", ")", ":", ".", "-", ", ", " ", "/"]
)
NUMBERS = st.integers(0, 10**12).map(str)


@settings(max_examples=60)
@given(st.lists(WORDS | NUMBERS, max_size=14), st.randoms(use_true_random=False))
def test_other_numbers_change_nothing(parts, chance):
    message = "".join(parts)
    other = re.sub(r"\d+", lambda _: str(chance.randrange(10 ** chance.randrange(1, 9))), message)
    assert normal_form(message) == normal_form(other)


MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
DAY = r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*"
PLAINLY = re.compile(
    "|".join(
        (
            r"(?<!\w)'[^'\n]*'(?!\w)",
            r'"[^"\n]*"',
            r"`[^`\n]*`",
            r"(?<![\w+.-])[a-z][\w+.-]{0,30}+://[^\s'\"<>]++",
            r"(?<![\w.+-])[\w.+-]{1,64}+@[\w.-]++",
            rf"(?<!\w)(?:{DAY},? )?(?:\d+ {MONTH}|{MONTH} \d+)(?: \d+(?::\d+)*)*(?: ?(?:gmt|utc|[+-]\d+))?(?!\w)",
            r"(?<![\w/])(?:~|\.{1,2}|[a-z]:)?(?:[/\\][^\s/\\'\":,;()<>]+)+[/\\]?",
            r"(?<![\w:])(?:[0-9a-f]*:){2,}[\w-]*",
            r"(?<![\w-])[a-f0-9]{8,}+(?>(?:-[a-f0-9]++)*)(?![\w-])",
            r"(?<![\w-])[a-z_-]*+\d[\w-]*+",
        )
    ),
    re.ASCII | re.IGNORECASE,
)
"""The patterns of version 1 as they are meant, without what makes them fast."""


def plainly(message: str) -> str:
    bare = re.sub(r"[ \t\r\n\f\v]+", " ", PLAINLY.sub("#", message)).strip()
    return re.sub(r"#(?:[.,:;/+*%=T_-]{0,3} ?#)*", "#", bare)


FRAGMENTS = st.sampled_from(
    [
        "order",
        "HTTP",
        "at",
        "Nov",
        "Mon",
        "mon,",
        "can't",
        "x_",
        "(",
        ")",
        ":",
        ".",
        "-",
        ",",
        " ",
        " ",
        " ",
        "/",
        "\\",
        "'",
        '"',
        "`",
        "@",
        "+",
        "~",
        "12",
        "7",
        "0x7f",
        "deadbeef",
        "decaffed",
        "cafe",
        "fe80::",
        "::1",
        "10.0.0.7",
        ":8080",
        "T",
        "Z",
        "gmt",
        "UTC",
        "+02",
        "ann.b",
        "example.com",
        "https",
        "://",
        "q=a",
        "\n",
        "\t",
        "\x1c",
        "é",
        "日",
        "\u017f",
        "K",
        "_",
        "a",
        "F",
        "16",
        "2026",
        "Sat",
        "may",
        "March",
        "C:",
        "..",
        "#",
        "=",
        "%",
        "<",
        ">",
        "batch.py:22",
        "�",
    ]
)


@settings(max_examples=150)
@given(st.lists(FRAGMENTS, max_size=14).map("".join) | st.text(max_size=20))
def test_it_is_fast_without_saying_anything_else(message):
    assert normal_form(message) == plainly(message)


@settings(max_examples=50)
@given(st.text())
def test_any_text_has_one(message):
    assert re.fullmatch(r"1-[0-9a-f]{16}", fingerprint("q", "h", failure(message)))
    assert len(normal_form(message)) <= LONGEST_NORMAL_FORM


@pytest.mark.timeout(8)  # a pattern that looks at everything from everywhere takes far longer
@pytest.mark.parametrize("hostile", ["a", "'", "'a", "/", "a/", ":", "a:", "1 ", "a@", "-", "mon ", "1 jan ", "x://"])
def test_any_message_costs_linear_time(monkeypatch, hostile):
    monkeypatch.setattr("standfast.failure.fingerprint.LONGEST_MESSAGE", 40_000)
    assert len(normal_form(hostile * 40_000)) <= LONGEST_NORMAL_FORM


def test_a_huge_message_is_looked_at_in_part():
    assert normal_form("1 " * 4096 + "first") == normal_form("1 " * 4096 + "second" * 10**5) == "#"


@pytest.mark.parametrize("said", ["password={}", "token: '{}'", "https://{}@db/x", "Authorization: Basic {}"])
def test_no_secret_is_guessed_by_it(said):
    """A viewer sees fingerprints, and the message without its secret: trying words must lead nowhere."""
    one, other = (failure(message=f"login failed, {said.format(word)} was refused") for word in ("swordfish", "tiger"))
    assert fingerprint("mail", "send", one) == fingerprint("mail", "send", other)

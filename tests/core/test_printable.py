"""Text from outside never acts on a terminal."""

import json
import unicodedata

import pytest

from standfast.printable import APART, data_size, escaped, printable, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain wörld 日本 🎉", "plain wörld 日本 🎉"),
        ("\x1b[31mred\x1b[0m", r"\u001b[31mred\u001b[0m"),
        ("\x1b]8;;http://evil\x07link", r"\u001b]8;;http://evil\u0007link"),
        ("\x9b31m", r"\u009b31m"),
        ("\x7f", r"\u007f"),
        ("pay\u202etxt.exe\u2066", r"pay\u202etxt.exe\u2066"),
        ("a\u200eb\u061cc", r"a\u200eb\u061cc"),
        ("two\r\nlines\tand\u2028more", r"two\r\nlines\tand\u2028more"),
        ("half \ud800 pair", r"half \ud800 pair"),
    ],
)
def test_what_could_act_is_shown_as_an_escape(text, shown):
    assert escaped(text) == shown


INVISIBLE = (
    *"\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\ufeff\u00ad\u180e\u3164\u115f\u034f",
    *"\ufe00\ufe0f\ufff0\ufffb\U0001d159\U00016fe4",
)
TAGS = ("\U000e0001", "\U000e0041", "\U000e007f", "\U000e0100")


@pytest.mark.parametrize("character", [*INVISIBLE, *TAGS], ids=lambda each: f"U+{ord(each):04X}")
def test_what_nobody_can_see_is_shown_as_an_escape(character):
    """Two names that look alike must not differ, and no sentence hides in a word."""
    text = f"pay{character}pal"
    assert character not in escaped(text)
    assert json.loads(f'"{escaped(text)}"') == text
    assert character not in printable(text)
    assert visible(f"{text}\n{text}").count("\n") == 1


def test_every_character_that_formats_or_controls_is_known():
    """As this version of Unicode has them."""
    acting = [
        chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    ]
    assert [each for each in acting if each in escaped(each)] == []


def test_escaped_json_is_the_same_json():
    value = {"\u202ekey": ["tag \U000e0041", "\x1b[2J", "\x7f\x85", "line\nline", 'quote"\\'], "n": 1}
    text = json.dumps(value, ensure_ascii=False)
    assert "\x7f" in text
    assert escaped(text).isprintable()
    assert json.loads(escaped(text)) == value


def test_a_kept_line_loses_what_could_act():
    assert printable("one\r\ntwo \x1b[31mred\x1b[0m \u202e\x00") == "one two \ufffdred\ufffd \ufffd\ufffd"


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (500, "500 bytes"),
        (1023, "1 023 bytes"),
        (1 << 10, "1 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1 023 KiB"),
        (5_000_000, "4.76 MiB"),
        (10 << 20, "10 MiB"),
        ((64 << 20) - 1, "63.9 MiB"),
        (200 << 20, "200 MiB"),
        (5 << 30, "5 GiB"),
        (3 << 40, "3 TiB"),
        (3_000 << 40, "3 000 TiB"),
    ],
)
def test_a_size_is_in_the_largest_unit_that_fits_and_never_more_than_it_is(size, expected):
    assert data_size(size).replace(APART, " ") == expected

"""Text from outside never acts on a terminal."""

import json

import pytest

from standfast.printable import escaped, printable


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


def test_escaped_json_is_the_same_json():
    value = {"\u202ekey": ["\x1b[2J", "\x7f\x85", "line\nline", 'quote"\\'], "n": 1}
    text = json.dumps(value, ensure_ascii=False)
    assert "\x7f" in text
    assert escaped(text).isprintable()
    assert json.loads(escaped(text)) == value


def test_a_kept_line_loses_what_could_act():
    assert printable("one\r\ntwo \x1b[31mred\x1b[0m \u202e\x00") == "one two \ufffdred\ufffd \ufffd\ufffd"

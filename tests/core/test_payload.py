"""The one door for payloads: what goes in comes back the same, and what would not is refused."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any, TypedDict

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.errors import PayloadRejected
from standfast.spine.payload import DEEPEST, LARGEST, canonical, fingerprint, parse, sha256
from standfast.spine.registry import Declaration, Handler

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


def nested(levels: int, innermost: Any = None) -> Any:
    """Put lists around a value, so that there are so many levels of lists."""
    for _ in range(levels):
        innermost = [innermost]
    return innermost


class Colour(IntEnum):
    RED = 1


class Letter(msgspec.Struct):
    to: str
    copies: int = 1


@dataclass
class Parcel:
    to: str
    weight: float


class Card(TypedDict):
    to: str


class Model:
    """What pydantic's models offer, as far as anybody here looks."""

    def __init__(self, to: str) -> None:
        self.to = to

    def model_dump(self, *, mode: str, by_alias: bool) -> dict[str, str]:
        assert (mode, by_alias) == ("json", True)
        return {"to": self.to}

    @classmethod
    def model_validate_json(cls, text: str) -> Model:
        read = json.loads(text)
        if not isinstance(read.get("to"), str):
            raise ValueError("to: a text is needed")  # noqa: TRY004 - as pydantic does
        return cls(read["to"])


# --- what comes back the same


@settings(deadline=None)
@given(values)
def test_what_goes_in_comes_back(value):
    text = canonical(value)
    assert json.loads(text) == value
    assert msgspec.json.decode(text) == value
    assert canonical(parse(text)) == text


@settings(deadline=None)
@given(st.dictionaries(texts, st.integers(0, 9), min_size=2, max_size=6), st.randoms())
def test_the_order_of_keys_makes_no_difference(value, chance):
    shuffled = list(value.items())
    chance.shuffle(shuffled)
    assert canonical(dict(shuffled)) == canonical(value)


def test_the_text_is_compact_and_sorted():
    assert canonical({"b": [1, 2.5, True, None], "a": {"ü": "ß", "A": ""}}) == (
        '{"a":{"A":"","ü":"ß"},"b":[1,2.5,true,null]}'
    )


def test_a_tuple_inside_is_a_list():
    assert canonical({"a": (1, (2,))}) == '{"a":[1,[2]]}'


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "text", [], {}])
def test_any_json_value_will_do(value):
    assert json.loads(canonical(value)) == value


def test_what_differs_has_another_text():
    different: list[Any] = [1, 1.0, "1", True, [1], None, "null", {}, []]
    assert len({canonical(value) for value in different}) == 9


# --- what is refused


@pytest.mark.parametrize(
    "value",
    [
        *({1}, frozenset(), b"x", bytearray(b"x"), object(), datetime(2026, 1, 1, tzinfo=UTC), Decimal(1), 1j),
        *(Colour.RED, OrderedDict(a=1), lambda: None, int, range(3)),
    ],
)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value], lambda value: {"a": {"b": value}}])
def test_what_is_no_json_is_refused(value, wrap):
    with pytest.raises(PayloadRejected, match=r"which is not JSON; convert it first.*; nothing was written"):
        canonical(wrap(value))


@pytest.mark.parametrize("key", [1, None, True, 1.5, (1,), b"a", Colour.RED])
def test_a_key_that_is_no_text_is_refused(key):
    """JSON would turn it into text, and it would come back as another key."""
    with pytest.raises(PayloadRejected, match="a key is of type"):
        canonical({"a": {key: 1}})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_json_cannot_say_are_refused(value):
    with pytest.raises(PayloadRejected, match="which JSON cannot express"):
        canonical({"a": [value]})


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**100])
def test_integers_over_64_bits_are_refused(value):
    with pytest.raises(PayloadRejected, match="over 64 bits; send it as text"):
        canonical([value])


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63)])
def test_integers_of_64_bits_are_kept(value):
    assert canonical([value]) == f"[{value}]"


@pytest.mark.parametrize("value", ["a\0b", ["\0"], {"\0": 1}, {"a": {"b\0": 1}}])
def test_nul_is_refused(value):
    with pytest.raises(PayloadRejected, match="NUL"):
        canonical(value)


@pytest.mark.parametrize("value", ["\ud800", ["a\udfff"], {"\ud800": 1}, {"a": {"b": "\udc00\ud800"}}])
def test_half_a_surrogate_pair_is_refused(value):
    with pytest.raises(PayloadRejected, match="not Unicode"):
        canonical(value)


@pytest.mark.parametrize(
    "value", [nested(DEEPEST), nested(DEEPEST - 1, []), nested(DEEPEST - 1, {}), {"a": nested(63)}]
)
def test_sixty_four_levels_are_kept(value):
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize(
    "value", [nested(DEEPEST + 1), nested(DEEPEST, []), nested(DEEPEST, {}), {"a": nested(64)}, nested(500)]
)
def test_more_than_sixty_four_levels_are_refused(value):
    with pytest.raises(PayloadRejected, match="deeper than 64 levels"):
        canonical(value)


def test_a_list_in_itself_is_refused():
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(PayloadRejected, match="deeper than"):
        canonical(loop)


def test_lists_that_unfold_without_end_are_refused_early():
    unfolding: list[Any] = ["x"] * 10
    for _ in range(20):
        unfolding = [unfolding] * 10
    with pytest.raises(PayloadRejected, match="more values than"):
        canonical(unfolding)


def test_the_size_is_counted_in_bytes_of_the_text():
    fits = "ü" * ((LARGEST - 2) // 2)
    assert len(canonical(fits).encode()) == LARGEST
    with pytest.raises(PayloadRejected, match=f"has {LARGEST + 1} bytes where {LARGEST} are allowed"):
        canonical(fits + "x")
    assert canonical(fits + "x", largest=LARGEST + 1)


# --- typed payloads


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (Letter("bob"), '{"copies":1,"to":"bob"}'),
        (Parcel("bob", 1.5), '{"to":"bob","weight":1.5}'),
        (Card(to="bob"), '{"to":"bob"}'),
        (Model("bob"), '{"to":"bob"}'),
    ],
)
def test_a_typed_payload_is_written_as_its_fields(payload, text):
    assert canonical(payload) == text


BAD: Any = object()
WORSE: Any = {1: 2}


@pytest.mark.parametrize("payload", [Letter(BAD), Letter("\0"), Parcel("bob", float("nan")), Parcel("bob", WORSE)])
def test_a_typed_payload_with_a_field_that_is_no_json_is_refused(payload):
    with pytest.raises(PayloadRejected, match="nothing was written"):
        canonical(payload)


@pytest.mark.parametrize("payload", [Letter, Parcel, Model])
def test_a_class_in_place_of_its_instance_is_refused(payload):
    with pytest.raises(PayloadRejected):
        canonical(payload)


def reader(kind: Any) -> Handler:
    return Handler(print, Declaration(queue="mail", name="send"), None, input=kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Letter, '{"to":"bob"}', Letter("bob")),
        (Parcel, '{"to":"bob","weight":2}', Parcel("bob", 2.0)),
        (Card, '{"to":"bob"}', {"to": "bob"}),
        (dict[str, int], '{"a":1}', {"a": 1}),
    ],
)
def test_a_handler_reads_its_input(kind, text, expected):
    assert reader(kind).read(text) == expected


def test_a_handler_reads_a_model():
    read = reader(Model).read('{"to":"bob"}')
    assert isinstance(read, Model)
    assert read.to == "bob"


@pytest.mark.parametrize("kind", [Letter, Parcel, Card, Model])
@pytest.mark.parametrize("text", ['{"to":5}', "{}"])
def test_a_payload_that_does_not_fit_its_handler_is_refused(kind, text):
    with pytest.raises(PayloadRejected, match="the payload does not fit send"):
        reader(kind).read(text)


def test_a_handler_without_an_input_takes_anything():
    assert reader(None).read("[1,2]") is None


# --- from outside


@pytest.mark.parametrize("raw", ['{"a":1,"a":1}', '[{"b":{"a":1,"c":2,"a":3}}]', b'{"a":1,"\\u0061":2}'])
def test_a_key_named_twice_is_refused(raw):
    with pytest.raises(PayloadRejected, match="names a key twice"):
        parse(raw)


@pytest.mark.parametrize(
    "raw", ["", "nope", "{'a': 1}", "[1,]", "{", b"\xff\xff", "[1] [2]", "[" * 100_000, "1" * 5000]
)
def test_what_is_no_json_text_is_refused(raw):
    with pytest.raises(PayloadRejected, match="the payload is not JSON"):
        parse(raw)


@pytest.mark.parametrize(
    "raw", ["NaN", "[Infinity]", '{"a":-Infinity}', "[1e999]", '"\\ud800"', '"a\\u0000"', str(2**64)]
)
def test_what_python_reads_and_json_cannot_say_does_not_pass_the_door(raw):
    with pytest.raises(PayloadRejected):
        canonical(parse(raw))


@settings(deadline=None)
@given(values)
def test_what_is_read_is_what_was_written(value):
    assert parse(json.dumps(value)) == parse(json.dumps(value).encode()) == value


# --- what it is known by


def test_the_hash_is_of_the_text():
    assert sha256('{"a":1}') == hashlib.sha256(b'{"a":1}').hexdigest()


def test_the_fingerprint_covers_handler_and_payload():
    prints = {fingerprint(handler, text) for handler in ("a", "ab") for text in ("bc", "c")}
    assert len(prints) == 4
    assert fingerprint("a", "b") == fingerprint("a", "b")


# --- where it is


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"a": [1, 2, 3, {4}]}, r"a value is of type set, .*, at payload\.a\[3\]; nothing was written"),
        ([[float("nan")]], r"nan, which JSON cannot express, at payload\[0\]\[0\];"),
        ({"a": {"b c": 2**64}}, r"over 64 bits; send it as text, at payload\.a\['b c'\];"),
        ({"a": ({"b": "x\0"},)}, r"NUL character, at payload\.a\[0\]\.b;"),
        ({"a": {1: 2}}, r"a key is of type int, .*, at payload\.a;"),
        ({"a": {"x\0": 2}}, r"a key of the payload contains a NUL character, at payload\.a;"),
        ({"a": ["\ud800"]}, r"not Unicode, at payload\.a\[0\]:"),
        ({"a": {"\ud800": 1}}, r"not Unicode, at payload\.a:"),
        ({"\u202e": {1}}, r"at payload\['\\u202e'\];"),
        ({1: 2}, "a key is of type int, which is not JSON; convert it first; nothing was written$"),
        (float("inf"), "the payload contains inf, which JSON cannot express; nothing was written$"),
    ],
)
def test_a_refusal_names_the_place_of_what_it_refuses(payload, words):
    with pytest.raises(PayloadRejected, match=words):
        canonical(payload)


def test_a_tuple_is_a_list_at_the_top_too():
    assert canonical((1, (2, 3))) == canonical([1, [2, 3]]) == "[1,[2,3]]"


def test_what_is_no_payload_is_called_by_its_own_name():
    with pytest.raises(PayloadRejected, match=r"^--result is not JSON"):
        parse("{", "--result")
    with pytest.raises(PayloadRejected, match=r"^--result names a key twice"):
        parse('{"a": 1, "a": 2}', "--result")

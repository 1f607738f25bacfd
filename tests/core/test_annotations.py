"""The type of a handler's payloads is read from its annotation, once, when it is registered."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypedDict, cast

import msgspec
import pydantic
import pytest

from standfast import Cancel, ConfigurationError, Job, PayloadRejected, Snooze, Standfast

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForCheckers


class Mail(msgspec.Struct):
    to: str
    urgent: bool = False


@dataclasses.dataclass
class Letter:
    to: str
    urgent: bool = False


class Card(TypedDict):
    to: str


class Parcel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=False)

    to: str = pydantic.Field(alias="recipient")
    urgent: bool = False


class Engine:
    """What no JSON can be read as."""


@pytest.fixture
def sf() -> Standfast:
    return Standfast(":memory:")


@pytest.mark.parametrize("kind", [Mail, Letter, Card, Parcel, dict[str, int], list[Mail]])
def test_the_annotation_says_what_a_payload_is(sf: Standfast, kind):
    async def handle(job: Job[kind]) -> None: ...

    assert sf.handler("mail")(handle).input == kind


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (Mail("ann"), '{"to":"ann","urgent":false}'),
        (Letter("ann"), '{"to":"ann","urgent":false}'),
        ({"to": "ann"}, '{"to":"ann"}'),
        (Parcel(recipient="ann"), '{"recipient":"ann","urgent":false}'),
    ],
)
async def test_a_model_is_enqueued_as_its_json_and_read_back_with_its_defaults(payload, text):
    kind = Card if isinstance(payload, dict) else type(payload)
    seen = []
    async with Standfast(":memory:") as sf:

        @sf.handler("mail")
        async def handle(job: Job[kind]) -> None:  # type: ignore[valid-type]
            seen.append(job.input)

        receipt = await handle.enqueue(payload)
        async with sf.worker():
            await sf.wait(receipt.id, 10)
        found = await sf.status(receipt.id)
    assert seen == [payload]
    assert found is not None
    assert found.payload == msgspec.json.decode(text)


async def test_a_payload_that_does_not_fit_is_refused_before_it_is_stored(sf: Standfast):
    @sf.handler("mail")
    async def handle(job: Job[Mail]) -> None: ...

    with pytest.raises(PayloadRejected, match=r"does not fit mail.*nothing was written"):
        await handle.enqueue({"too": "ann"})  # type: ignore[arg-type]
    await sf.close()


@pytest.mark.parametrize("annotation", ["Job", "Job[Any]", "standfast.Job", "Unheard", None, Job])
def test_an_annotation_that_names_no_payload_is_no_input(sf: Standfast, annotation):
    async def handle(job): ...

    if annotation is not None:
        handle.__annotations__["job"] = annotation
    assert sf.handler("mail")(handle).input is None


def test_job_itself_may_be_imported_for_type_checkers_only(sf: Standfast):
    names: dict[str, Any] = {"Mail": Mail}
    exec("async def handle(job: 'Job[Mail]') -> None: ...", names)  # noqa: S102 - a module without Job
    assert sf.handler("mail")(names["handle"]).input is Mail


def test_a_name_that_cannot_be_resolved_is_named(sf: Standfast):
    async def handle(job: Job[OnlyForCheckers]) -> None: ...

    with pytest.raises(ConfigurationError, match=r"handler mail: its annotation Job\[OnlyForCheckers\] cannot be"):
        sf.handler("mail")(handle)


def test_an_input_that_contradicts_the_annotation_is_refused(sf: Standfast):
    async def handle(job: Job[Mail]) -> None: ...

    with pytest.raises(ConfigurationError, match=r"input=Letter contradicts its annotation Job\[Mail\]"):
        sf.handler("mail", input=Letter)(handle)  # type: ignore[arg-type]
    assert sf.handler("mail", input=Mail)(handle).input is Mail


def test_a_list_of_the_input_is_what_a_collecting_queue_gives(sf: Standfast):
    async def handle(job: Job[list[Mail]]) -> None: ...

    assert sf.handler("mail", input=Mail)(handle).input is Mail


def test_a_type_that_no_payload_can_be_read_as_is_refused(sf: Standfast):
    async def handle(job: Job[Engine]) -> None: ...

    with pytest.raises(ConfigurationError, match="no payload can be read as Engine"):
        sf.handler("mail")(handle)


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (Mail, Mail),
        (Mail | Snooze | Cancel, Mail),
        ("Mail | None", Mail | None),
        (Snooze | Cancel, None),
        (None, None),
        (Any, None),
    ],
)
def test_the_return_annotation_says_what_a_result_is(sf: Standfast, annotation, kind):
    async def handle(job): ...

    handle.__annotations__["return"] = annotation
    assert sf.handler("mail")(handle).returns == kind


async def test_a_return_annotation_that_cannot_be_resolved_matters_only_to_who_asks_for_the_result(sf: Standfast):
    @sf.handler("mail")
    async def handle(_job: Job) -> OnlyForCheckers:
        return cast("OnlyForCheckers", 7)

    async with sf:
        assert (await sf.run("mail"))["result"] == 7
        with pytest.raises(ConfigurationError, match=r"return annotation OnlyForCheckers.*nothing was called"):
            await handle.run()
        assert len(await sf.jobs()) == 1

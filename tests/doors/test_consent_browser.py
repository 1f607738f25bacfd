"""Consent in a real browser: what waits is listed, what will be done is in sight, and the answer is given there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from standfast import Effect, Standfast
from tests.doors.house import House
from tests.doors.test_dashboard_browser import BY_NOTICE, Visitor, browser, expect, pytestmark, visitor

__all__ = ["browser", "pytestmark", "visitor"]


@pytest.fixture(scope="module", params=["file", "postgres"])
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    here = request.param == "file"
    with House(payments(str(tmp_path_factory.mktemp("h") / "q.db") if here else _url(request))) as made:
        yield made


def _url(request: pytest.FixtureRequest) -> str:
    schemas = request.getfixturevalue("_schemas")
    lent = schemas.lent()
    request.addfinalizer(lambda: lent.__exit__(None, None, None))
    return str(lent.__enter__())


def payments(url: str) -> Standfast:
    sf = Standfast(url)

    @sf.handler("payments", consent=True, risk="medium", effects=[Effect("transfer")])
    async def pay(job: Any) -> dict[str, Any]:
        """Transfer money to a supplier."""
        return {"paid": job.payload["amount"]}

    return sf


def waits(house: House, amount: int) -> str:
    """Have a job wait for consent; give its id."""

    async def asked(sf: Standfast) -> str:
        payload = {"to": "ACME Ltd", "amount": amount, "api_key": "sk-live-0123456789abcdef"}
        made = await sf.enqueue("payments", payload, session="agent:planner", requester="planner")
        await sf.wait(made.id, 15)
        return str(made.id)

    return house.ask(asked)


def test_a_consent_is_given_once_with_what_will_be_done_in_sight(house: House, visitor: Visitor) -> None:
    other, job = waits(house, 1), waits(house, 1250)
    page = visitor("ada", "approver")
    page.goto(f"{house.url}/")
    page.get_by_role("link", name="Consents").click()
    page.get_by_role("link", name=job).click()
    box = page.locator("#consent")
    for words in (
        "payments/payments",
        "Transfer money to a supplier.",
        "transfer",
        "medium",
        "agent:planner",
        "planner",
    ):
        expect(box.get_by_text(words, exact=True).first).to_be_visible()
    expect(box.locator("pre")).to_contain_text('"amount": 1250')
    assert "sk-live" not in box.inner_text()
    assert page.locator("summary", has_text="Replay").count() == 0
    page.locator("#consent-why").fill("the invoice is right")
    house.ask(lambda sf: sf.enqueue("payments", {"amount": 3}, session="x"))  # the page is drawn anew meanwhile
    expect(page.locator("#consent-why")).to_have_value("the invoice is right", timeout=BY_NOTICE)
    box.get_by_role("button", name="Allow").click()
    expect(page.get_by_text("Granted: the job goes on by itself.")).to_be_visible()
    expect(page.locator("h1 .state")).to_have_text("completed", timeout=BY_NOTICE)
    assert page.locator("#consent").count() == 0
    assert house.ask(lambda sf: sf.status(other)).state == "held"  # type: ignore[union-attr]


def test_a_consent_is_denied_and_a_grant_for_a_time_is_listed_and_taken_back(house: House, visitor: Visitor) -> None:
    first, second = waits(house, 7), waits(house, 8)
    page = visitor("ada", "approver")
    page.goto(f"{house.url}/jobs/{first}")
    page.locator("#consent-why-not").fill("not this one")
    page.get_by_role("button", name="Deny this job").click()
    expect(page.get_by_text("Denied: this job ends here.")).to_be_visible()
    expect(page.locator("h1 .state")).to_have_text("dead")
    page.goto(f"{house.url}/jobs/{second}")
    page.get_by_label("Allow").select_option("timed")
    page.get_by_label("For how long").fill("10m")
    page.get_by_role("button", name="Allow").click()
    page.goto(f"{house.url}/consents")
    row = page.get_by_role("row").filter(has_text="timed")
    expect(row).to_contain_text("payments/payments")
    row.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Taken back.")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="timed")).to_have_count(0)


def test_an_operator_sees_what_is_asked_and_that_another_must_answer(house: House, visitor: Visitor) -> None:
    job = waits(house, 9)
    page = visitor("olga", "operator")
    page.goto(f"{house.url}/jobs/{job}")
    expect(page.get_by_text("Your role, operator, cannot answer.")).to_be_visible()
    assert page.get_by_role("button", name="Allow").count() == 0

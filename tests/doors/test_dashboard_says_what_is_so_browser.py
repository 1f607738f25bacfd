"""What a person sees and presses is what is so: driven in a real browser, on each kind of store."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from standfast import Permanent, Standfast, Transient
from tests.doors.house import House
from tests.doors.test_dashboard_browser import SLOW, browser, expect, pytestmark

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["browser", "pytestmark"]

AWAY = re.compile(r"CRM has not answered since \d\d:\d\d UTC; next try in \d+ min")


def workshop(url: str) -> Standfast:
    """Give a queue whose handlers fail until they are told otherwise."""
    sf = Standfast(url)
    sf.mended = False  # type: ignore[attr-defined]

    sf.queue("orders", depth_warning=20)

    @sf.handler("orders")
    async def orders(job: Any) -> None:
        if not sf.mended:  # type: ignore[attr-defined]
            raise Permanent(f"the warehouse has no item {job.payload['n']}")

    sf.queue("sync", breaker={"dependency": "CRM", "failures": 2, "open_for": 600}, attempts=50)

    @sf.handler("sync")
    async def sync(_job: Any) -> None:
        if not sf.mended:  # type: ignore[attr-defined]
            raise Transient("no route to the CRM")

    return sf


@pytest.fixture(params=["file", "postgres"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    url = str(tmp_path / "queue.db") if request.param == "file" else request.getfixturevalue("postgres_url")
    with House(workshop(url)) as made:
        yield made


Visitor = Callable[[str], "Page"]


@pytest.fixture
def visit(house: House, browser: Browser) -> Iterator[Visitor]:
    """Sign an operator in and open a page."""
    context = browser.new_context()
    context.set_default_timeout(SLOW)
    context.request.get(house.link(f"olga-{os.urandom(3).hex()}", "operator"))

    def arrive(path: str) -> Page:
        page = context.new_page()
        page.goto(f"{house.url}{path}")
        return page

    yield arrive
    context.close()


def fail(house: House, number: int, **options: Any) -> list[str]:
    """Have orders die; give their ids."""

    async def enqueue(sf: Standfast) -> list[str]:
        made = [await sf.enqueue("orders", {"n": n}, **options) for n in range(number)]
        for each in made:
            await sf.wait(each.id, 15)
        return [str(each.id) for each in made]

    return house.ask(enqueue)


def test_a_queue_reads_paused_right_after_pause_and_its_button_resumes_it(house: House, visit: Visitor) -> None:
    house.ask(lambda sf: sf.queues.describe())
    page, other = visit("/queues/orders"), visit("/queues/orders")
    for _ in range(3):  # each time within the second in which pages share an answer
        page.get_by_role("button", name="Pause", exact=True).click()
        assert page.locator("h1 .state").inner_text() == "paused"
        page.get_by_role("button", name="Resume", exact=True).click()
        assert page.locator("h1 .state").inner_text() == "active"
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(other.get_by_role("button", name="Resume", exact=True)).to_be_visible(timeout=SLOW)
    expect(other.locator("h1 .state")).to_have_text("paused")


def test_a_plan_is_of_exactly_the_jobs_that_were_filtered_by_their_label(house: House, visit: Visitor) -> None:
    fail(house, 3, labels={"team": "north & east"})
    fail(house, 2, labels={"team": "south"})
    page = visit("/jobs")
    page.get_by_label("State").select_option("dead")
    page.get_by_label("Label").fill("team:north & east")
    page.get_by_role("button", name="Find").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.get_by_role("link", name="Plan a redrive of these letters").click()
    expect(page.get_by_text("3 letters by cause")).to_be_visible()
    assert page.get_by_label("Label").input_value() == "team:north & east"
    letters = page.url
    page.get_by_role("button", name="Plan a redrive of everything that matches").click()
    expect(page.get_by_text("What would happen to 3 letters")).to_be_visible()
    page.get_by_role("link", name="Leave it").click()
    expect(page.get_by_text("3 letters by cause")).to_be_visible()
    page.goto(letters)
    page.get_by_role("button", name=re.compile("Plan a redrive of the 3 letters")).click()
    expect(page.get_by_text("What would happen to 3 letters")).to_be_visible()
    page.goto(letters)
    page.get_by_role("link", name="handler_refused").first.click()
    expect(page.get_by_text("3 letters by cause")).to_be_visible()


def test_an_outage_comes_first_by_the_name_of_what_is_away_and_is_tried_now(house: House, visit: Visitor) -> None:
    fail(house, 12)  # letters are an alert too, and less harm

    async def outage(sf: Standfast) -> None:
        for _ in range(3):
            await sf.enqueue("sync", {})

    house.ask(outage)
    page = visit("/")
    first = page.get_by_role("list", name="Issues and alerts").locator("li").first
    expect(first).to_contain_text(AWAY, timeout=SLOW)
    house.sf.mended = True  # type: ignore[attr-defined]
    page.get_by_role("button", name="Try CRM now").click()
    expect(page.get_by_text("The next job that waits for it tries it now.")).to_be_visible()
    expect(page.get_by_text("CRM has not answered")).to_have_count(0, timeout=SLOW)
    page.goto(f"{house.url}/queues/sync")
    expect(page.locator("tbody .state", has_text="completed")).to_have_count(3, timeout=SLOW)


def test_everything_that_is_wrong_with_one_queue_is_one_line(house: House, visit: Visitor) -> None:
    fail(house, 12)
    house.ask(lambda sf: sf.queues.pause("orders"))

    async def back_up(sf: Standfast) -> None:
        for n in range(40):
            await sf.enqueue("orders", {"n": n})

    house.ask(back_up)
    page = visit("/")
    lines = page.get_by_role("list", name="Issues and alerts").locator("li", has_text="orders")
    expect(lines).to_have_count(1, timeout=SLOW)
    expect(lines.first).to_contain_text("12 dead letters")
    expect(lines.first).to_contain_text("40 pending (backed up)")
    assert "somebody" not in page.locator("body").inner_text().lower()


def test_a_stuck_workflow_is_a_link_to_it(house: House, visit: Visitor) -> None:
    async def stick(sf: Standfast) -> str:
        flow = sf.workflow("restock")
        first = flow.step("count", "orders", {"n": 1})
        flow.step("order", "orders", {"n": 2}, after=[first])
        started = await flow.start()
        return str(started)

    workflow = house.ask(stick)
    page = visit("/")
    expect(page.get_by_text("is stuck: 1 step stopped")).to_be_visible(timeout=SLOW)
    page.get_by_role("link", name="restock", exact=True).click(timeout=SLOW)
    assert page.url == f"{house.url}/workflows/{workflow}"
    expect(page.locator("h1 .state")).to_have_text("stuck")


def test_a_redrive_that_halted_lists_what_failed_with_its_error(house: House, visit: Visitor) -> None:
    ids = fail(house, 4)

    async def redrive(sf: Standfast) -> str:
        plan = await sf.dead_letters.plan({"queue": "orders"})
        return str((await sf.dead_letters.redrive(plan["token"], by="ann", reason="again", canary=2, halt_on=0.5)).id)

    started = house.ask(redrive)
    page = visit(f"/redrives/{started}")
    expect(page.locator("h1 .state")).to_have_text("halted", timeout=SLOW)
    table = page.get_by_role("region", name="Failed again")
    expect(table.locator("tbody tr")).to_have_count(2, timeout=SLOW)
    expect(table).to_contain_text(re.compile(r"the warehouse has no item \d"))
    tried = [ident for ident in ids if ident in table.inner_text()]
    table.get_by_role("link", name=tried[0]).click()
    expect(page.locator("h1")).to_contain_text(tried[0])
    page.goto(house.url)
    page.get_by_role("link", name=started).click()
    expect(page.locator("h1 .state")).to_have_text("halted")


def test_charts_spell_numbers_as_the_figures_above_them(house: House, visit: Visitor) -> None:
    house.ask(lambda sf: sf.enqueue_many("unserved", [{}] * 1200))
    page = visit("/")
    reading = page.locator('[data-last="due"]')
    expect(reading).to_have_text(re.compile("^1\N{NO-BREAK SPACE}2[0-9]{2}$"), timeout=SLOW)

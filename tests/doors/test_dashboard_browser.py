"""The dashboard in a real browser. Without Chromium these are skipped, by name; `script/test` installs it if it may."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from standfast import Permanent, Standfast
from tests.doors.hostile import VECTORS, attacked, press_hostile, visit_hostile
from tests.doors.house import House

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: the dashboard was not driven"),
]
if TYPE_CHECKING:  # slow to import: those who only collect the tests need none of it
    from playwright.sync_api import Browser, BrowserContext, Locator, Page

POLICY = """\
version: v1
replay_rules:
  - match: {risk: high}
    decision: require_approval
    approver_group: governance
  - match: {}
    decision: allow
"""
SLOW = 45_000
"""Milliseconds a fact may take to show, on a busy machine; nothing waits that long when all is well."""

BY_NOTICE = 10_000
"""Milliseconds in which a page is not drawn anew by the clock, while its stream of notices is open."""


def expect(place: Locator) -> Any:
    from playwright.sync_api import expect as expected  # noqa: PLC0415

    return expected(place)


def workshop(path: Path) -> Standfast:
    """Give a queue whose handlers fail until they are told otherwise."""
    sf = Standfast(path / "queue.db")
    sf.mended = False  # type: ignore[attr-defined]

    @sf.handler("orders")
    async def orders(_job: Any) -> None:
        if not sf.mended:  # type: ignore[attr-defined]
            raise Permanent("the warehouse is closed")

    @sf.handler("payouts", risk="high")
    async def payouts(_job: Any) -> None:
        if not sf.mended:  # type: ignore[attr-defined]
            raise Permanent("the bank is closed")

    @sf.handler("hostile")
    async def hostile(job: Any) -> None:
        raise Permanent(str(job.payload))

    return sf


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with House(workshop(tmp_path_factory.mktemp("house"))) as made:

        async def govern(sf: Standfast) -> None:
            await sf.policy.load(POLICY)

        made.ask(govern)
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as player:
        made = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


Visitor = Callable[..., "Page"]


@pytest.fixture
def visitor(house: House, browser: Browser) -> Iterator[Visitor]:
    """Sign somebody in, in a browser of their own."""
    contexts: list[BrowserContext] = []

    def arrive(name: str, role: str, *, groups: tuple[str, ...] = (), **options: Any) -> Page:
        link = house.link(f"{name}-{role}-{os.urandom(3).hex()}", role, groups=groups)
        contexts.append(browser.new_context(**options))
        contexts[-1].set_default_timeout(SLOW)
        contexts[-1].request.get(link)
        return contexts[-1].new_page()

    yield arrive
    for each in contexts:
        each.close()


def fill(house: House, queue: str, number: int = 1) -> list[str]:
    """Have jobs die; give their ids."""

    async def fail(sf: Standfast) -> list[str]:
        made = [await sf.enqueue(queue, {"n": n}, requester="shop") for n in range(number)]
        for each in made:
            await sf.wait(each.id, 15)
        return [str(each.id) for each in made]

    return house.ask(fail)


def mend(house: House, *, mended: bool) -> None:
    house.sf.mended = mended  # type: ignore[attr-defined]


def test_a_failure_is_seen_live_and_its_group_is_redriven_with_a_canary(house: House, visitor: Visitor) -> None:
    mend(house, mended=False)
    page = visitor("olga", "operator")
    with page.expect_response(lambda answer: "hx-request" in answer.request.headers):  # once more after it is open
        page.goto(f"{house.url}/dead-letters?queue=orders")
    expect(page.get_by_text("No letter fits")).to_be_visible()
    page.evaluate("window.here = true")
    expect(page.locator("body[data-stream=open]")).to_be_attached(timeout=SLOW)
    fill(house, "orders", 6)
    expect(page.get_by_text("6 letters by cause")).to_be_visible(timeout=BY_NOTICE)
    assert page.evaluate("window.here") is True  # it was not loaded anew
    mend(house, mended=True)
    page.get_by_role("button", name="Plan a redrive of the 6 letters").click()
    expect(page.get_by_role("heading", name="Redrive plan")).to_be_visible()
    page.get_by_label("Canary").fill("2")
    page.get_by_label("Rate of the rest").fill("")
    page.get_by_label("Reason").fill("the warehouse is open")
    page.get_by_role("button", name="Start the redrive").click()
    expect(page.get_by_text("6 of 6 letters settled")).to_be_visible(timeout=SLOW)
    expect(page.locator("h1 .state")).to_have_text("finished", timeout=SLOW)
    expect(page.get_by_text("2 first")).to_be_visible()


@pytest.mark.long  # it waits for the clock
def test_who_may_not_listen_sees_news_by_the_clock(house: House, visitor: Visitor) -> None:
    page = visitor("pia", "producer")
    page.goto(f"{house.url}/jobs")
    expect(page.locator("body[data-stream=down]")).to_be_attached(timeout=SLOW)
    name = page.locator(".who").inner_text().split(" · ")[0]
    house.ask(lambda sf: sf.enqueue("orders", 7, requester=name))
    expect(page.get_by_role("cell", name="orders", exact=True)).to_be_visible(timeout=BY_NOTICE)


def test_a_page_that_is_not_live_any_more_says_so_until_it_is(house: House, visitor: Visitor) -> None:
    page = visitor("vic", "viewer")
    page.goto(f"{house.url}/queues")
    page.route("**/queues", lambda route: route.abort())
    page.evaluate("htmx.trigger('#live', 'news')")
    expect(page.get_by_text("the server does not answer; trying again")).to_be_visible()
    page.unroute("**/queues")
    page.evaluate("htmx.trigger('#live', 'news')")
    expect(page.locator("#lost")).to_be_empty()


def test_an_approval_is_given_by_a_second_person_and_the_audit_verifies(house: House, visitor: Visitor) -> None:
    mend(house, mended=False)
    [job] = fill(house, "payouts")
    mend(house, mended=True)
    asking, answering = visitor("olga", "operator"), visitor("ada", "approver", groups=("governance",))
    asking.goto(f"{house.url}/jobs/{job}")
    asking.locator("summary", has_text="Replay").click()
    asking.locator("#why-replay").fill("the bank is open")
    asking.get_by_role("button", name="Replay").click()
    expect(asking.get_by_text("This is the approval that was requested")).to_be_visible()
    expect(asking.get_by_text("cannot answer approvals")).to_be_visible()
    answering.goto(f"{house.url}/approvals")
    answering.get_by_role("link").filter(has_text=asking.url.rpartition("/")[2].partition("?")[0]).click()
    expect(answering.get_by_text("the bank is open")).to_be_visible()
    expect(answering.get_by_text("handler payouts of queue payouts runs again")).to_be_visible()
    answering.get_by_role("button", name="Approve").click()
    expect(answering.locator("h1 .state")).to_have_text("used")
    asking.goto(f"{house.url}/jobs/{job}")
    expect(asking.locator("h1 .state")).to_have_text("completed", timeout=SLOW)
    asking.goto(f"{house.url}/audit")
    asking.get_by_role("link", name="Verify the chain").click()
    expect(asking.get_by_text("The chain is intact")).to_be_visible()


def test_pages_read_well_without_scripts(house: House, visitor: Visitor) -> None:
    mend(house, mended=False)
    [job] = fill(house, "orders")
    page = visitor("vic", "viewer", java_script_enabled=False)
    page.goto(house.url)
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    page.goto(f"{house.url}/jobs/{job}")
    expect(page.get_by_text("the warehouse is closed").first).to_be_visible()
    page.get_by_text("Show the payload").click()
    expect(page.get_by_text('"n": 0')).to_be_visible()


def test_a_page_of_another_origin_changes_nothing(house: House, visitor: Visitor) -> None:
    """Not even one of the same site, to which the browser sends the cookie."""
    page = visitor("olga", "admin")
    form = f'<form method=post action="{house.url}/queues/orders/pause"><button>go</button></form>'
    page.route("http://127.0.0.1:9/", lambda route: route.fulfill(body=form, content_type="text/html"))
    page.goto("http://127.0.0.1:9/")
    with page.expect_response(f"{house.url}/**") as answer:
        page.get_by_role("button").click()
    assert answer.value.status == 403
    assert house.ask(lambda sf: sf.queues.describe())["orders"]["paused"] is False


def hostile_workshop(path: Path) -> Standfast:
    """Give a workshop with a handler whose queue is named by a vector."""
    made = workshop(path)
    made.handler(VECTORS[0])(lambda _job: None)
    return made


@pytest.fixture(scope="module")
def hostile_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with House(hostile_workshop(tmp_path_factory.mktemp("hostile"))) as made:
        yield made


def test_nothing_that_others_wrote_is_run(hostile_house: House, browser: Browser) -> None:
    """The policy for content is set aside: what is written must be text by itself."""
    with browser.new_context(bypass_csp=True) as context:
        page = _admin(hostile_house, context)
        visit_hostile(hostile_house, page, attacked(hostile_house, page)[:3])


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("bypass", [True, False])
def test_nothing_that_others_wrote_is_run_on_any_page(
    tmp_path: Path,
    browser: Browser,
    bypass: bool,  # noqa: FBT001
) -> None:
    with House(hostile_workshop(tmp_path)) as house, browser.new_context(bypass_csp=bypass) as context:
        page = _admin(house, context)
        visit_hostile(house, page, attacked(house, page))
        press_hostile(house, page)


def _admin(house: House, context: BrowserContext) -> Page:
    link = house.link(f"root-{os.urandom(3).hex()}", "admin")
    context.set_default_timeout(SLOW)
    context.request.get(link)
    return context.new_page()


def broken_rules(page: Page) -> list[str]:
    """Give what a page makes hard for people who do not see or point."""
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # noqa: PLC0415

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]


def test_the_page_of_a_job_can_be_used_by_everybody(house: House, visitor: Visitor) -> None:
    mend(house, mended=False)
    [job] = fill(house, "orders")
    page = visitor("ada", "admin")
    page.goto(f"{house.url}/jobs/{job}")
    assert broken_rules(page) == []


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_can_be_used_by_everybody(tmp_path: Path, browser: Browser, scheme: Any, width: int) -> None:
    from tests.doors import gallery  # noqa: PLC0415

    with House(gallery.workshop(tmp_path)) as house:
        made = house.ask(gallery.furnish)
        with browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800}) as context:
            page = _admin(house, context)
            for address in (*gallery.pages(made).values(), "/sign-in"):
                page.goto(house.url + address)
                assert broken_rules(page) == [], address
                wide = page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (address, wide)


@pytest.mark.long
def test_the_keyboard_is_enough(house: House, visitor: Visitor) -> None:
    """The first stop skips to the content; focus survives a redraw."""
    mend(house, mended=False)
    fill(house, "orders")
    page = visitor("vic", "viewer")
    page.goto(f"{house.url}/queues")
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    link = page.get_by_role("link", name="orders")
    link.focus()
    with page.expect_response("**/queues"):
        pass
    page.wait_for_function("document.activeElement && document.activeElement.textContent === 'orders'")

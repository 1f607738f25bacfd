"""Script-injection vectors wherever others can write, on every page there is, and what tells whether one was run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from standfast import Standfast
from standfast.dashboard.sitemap import PAGES
from tests.doors.house import House

if TYPE_CHECKING:  # slow to import
    from playwright.sync_api import Page

SCRIPT = "fired()"
VECTORS = (
    f"<script>{SCRIPT}</script>",
    f"<img src=x onerror={SCRIPT}>",
    f"<svg onload={SCRIPT}>",
    f"<svg/onload={SCRIPT}>",
    f'"><script>{SCRIPT}</script>',
    f"'><img src=x onerror={SCRIPT}>",
    f"</pre><script>{SCRIPT}</script>",
    f"</textarea><img src=x onerror={SCRIPT}>",
    f"</title><svg onload={SCRIPT}>",
    f"</script><script>{SCRIPT}</script>",
    f'" autofocus onfocus={SCRIPT} x="',
    f"' onmouseover='{SCRIPT}",
    f"javascript:{SCRIPT}",
    f"<a href=javascript:{SCRIPT} autofocus>x</a>",
    f"<iframe srcdoc='<script>parent.{SCRIPT}</script>'>",
    f"<details open ontoggle={SCRIPT}>",
    f"<input autofocus onfocus={SCRIPT}>",
    f"<div hx-on:load={SCRIPT} hx-get=/ hx-trigger=load hx-swap=outerHTML>",
    f"{{{{ self.__init__.__globals__ }}}}<body onload={SCRIPT}>",
    f"<math><mtext></form><img src=x onerror={SCRIPT}>",
)

HOSTILE_POLICY = """\
version: v1
replay_rules:
  - {match: {queue: hostile}, decision: require_approval, approver_group: "<img src=x onerror=fired()>"}
  - {match: {}, decision: allow}
"""
NOTHING_OF_OTHERS = ("/sign-in",)
"""Pages that show nothing of what others wrote; on every other one a vector must be seen."""


async def _hostile(sf: Standfast) -> str:
    """Put every vector wherever text of others is kept; give the job that has them all."""
    for n, vector in enumerate(VECTORS):
        named: dict[str, Any] = {
            "idempotency_key": vector,
            "thread_key": vector,
            "session": vector,
            "requester": vector,
        }
        made = await sf.enqueue("hostile", {vector: vector, "all": VECTORS}, labels={"x": vector}, **named)
        await sf.enqueue(vector, vector, delay="1h")
        await sf.enqueue_http("hostile", "GET", "https://example.com/", headers={"x-y": vector}, delay="1h")
        await sf.schedules.add(vector, vector, vector, every="1h")
        await sf.tokens.create(vector, person=vector, role="viewer", groups=[vector], queues=[vector])
        await sf.consent.grant(vector, "hostile/hostile", mode="deny", by=vector, reason=vector)
        await sf.wait(made.id, 15)
        if n < 2:
            await sf.dead_letters.quarantine(str(made.id), by=vector, reason=vector, owner=vector)
    await _decided(sf, str(made.id))
    flow = sf.workflow(VECTORS[0])
    for vector in VECTORS:
        flow.step(vector, "hostile", {"x": vector})
    await flow.start()
    return str(made.id)


async def _decided(sf: Standfast, job: str) -> None:
    """Have a letter changed, a redrive begun and an approval asked for, with every vector in their reasons."""
    text = " ".join(VECTORS)
    await sf.policy.load(HOSTILE_POLICY)
    await sf.dead_letters.amend(job, {VECTORS[1]: list(VECTORS)}, by=VECTORS[0], reason=text)
    plan = (await sf.dead_letters.plan({"queue": "hostile"}))["token"]
    await sf.dead_letters.redrive(plan, by=VECTORS[0], reason=text, canary=1)
    await sf.dead_letters.replay(job, by=VECTORS[0], reason=text)


def attacked(house: House, page: Page) -> list[str]:
    """Fill the house with vectors, and count what fires; give the address of every page."""
    job = house.ask(_hostile)
    flow = house.ask(lambda sf: sf.workflows.list())[0]["id"]
    approval = next(each["id"] for each in house.ask(lambda sf: sf.approvals.list()) if each["job"] == job)
    redrive = house.ask(lambda sf: sf.dead_letters.redrives.list())[0]["id"]
    group = house.ask(lambda sf: sf.dead_letters.groups({"queue": "hostile"}))[0]["fingerprint"]
    page.add_init_script("window.count = 0; window.fired = () => { window.count++; };")
    found = {
        "/jobs/{id}": [f"/jobs/{job}"],
        "/workflows/{id}": [f"/workflows/{flow}"],
        "/approvals/{id}": [f"/approvals/{approval}"],
        "/redrives/{id}": [f"/redrives/{redrive}"],
        "/jobs": ["/jobs", f"/jobs?q={_quoted(VECTORS[4])}"],
        "/dead-letters": ["/dead-letters", f"/dead-letters?fingerprint={group}&queue={_quoted(VECTORS[4])}"],
        "/audit": ["/audit", f"/audit?job={_quoted(VECTORS[4])}"],
        "/approvals": ["/approvals", "/approvals?state=all"],
        "/queues/{name:path}": [f"/queues/{_quoted(vector)}" for vector in VECTORS],
        "refused": [f"/jobs/{_quoted(VECTORS[1])}", f"/dead-letters?class={_quoted(VECTORS[1])}"],
        "/sign-in": [f"/sign-in?code={_quoted(VECTORS[4])}&x={_quoted(VECTORS[0])}"],
    }
    whole = [page.path for page in PAGES if "{" not in page.path and page.path not in found]
    assert {page.path for page in PAGES} <= {*found, *whole}, "a page has no address here"
    return [*(address for each in found.values() for address in each), *whole]


def _quoted(text: str) -> str:
    return quote(text, safe="")


def visit_hostile(house: House, page: Page, addresses: list[str]) -> None:
    for address in addresses:
        page.goto(house.url + address)
        check_harmless(page, address)


def check_harmless(page: Page, address: str) -> None:
    """See to it that what others wrote is on a page, and is text there."""
    for each in page.locator("summary").all():
        each.click()
    page.mouse.move(300, 300)
    assert page.evaluate("window.count") == 0, address
    assert page.locator("h1").count() == 1, address
    if not address.startswith(NOTHING_OF_OTHERS):
        assert SCRIPT in page.evaluate("document.body.innerText + document.body.innerHTML"), address


def press_hostile(house: House, page: Page) -> None:
    """Send the forms that answer with a page of their own, or with a refusal that quotes what was sent."""
    page.goto(f"{house.url}/dead-letters?queue=hostile")
    field = page.locator('input[name="filter.queue"]').last
    field.evaluate("(field, text) => { field.value = text; }", VECTORS[4])
    page.get_by_role("button", name="everything that matches").click()
    check_harmless(page, "plan")
    page.goto(f"{house.url}/tokens")
    for name in ("Name", "Person"):
        page.get_by_label(name, exact=True).fill(f"{VECTORS[1]}{VECTORS[4]}"[:100])
    page.get_by_role("button", name="Create token").click()
    check_harmless(page, "token")
    for text in (HOSTILE_POLICY, f"version: {VECTORS[0]}"):
        page.goto(f"{house.url}/policy")
        page.locator("textarea").fill(text)
        page.get_by_role("button", name="Try it").click()
        check_harmless(page, text)

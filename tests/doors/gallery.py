"""Pictures of every page, from a store with a day's worth of trouble in it: `script/screenshots` runs this."""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from standfast import Effect, Permanent, Standfast, Transient, fixed
from tests.doors.house import House

POLICY = """\
version: v1
dlq_rules:
  - match: {reason_code: denied}
    action: require_approval
    approver_group: platform-governance
replay_rules:
  - match: {risk: high}
    decision: require_approval
    approver_group: platform-governance
  - match: {}
    decision: allow
"""
CHROMIUM = "/usr/bin/chromium"
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def workshop(path: Path) -> Standfast:
    """Give a queue with handlers that work, fail for a while, and fail for good."""
    sf = Standfast(path / "queue.db")
    sf.queue("analytics_ingest", attempts=2, backoff=fixed(0.2), dead_warning=10)
    sf.queue("artifact_delivery", attempts=4, backoff=fixed(0.3))
    chance = random.Random(7)  # noqa: S311 - pictures

    @sf.handler("artifact_delivery")
    async def deliver(job: Any) -> dict[str, Any]:
        await asyncio.sleep(chance.uniform(0.02, 0.25))
        if chance.random() < 0.12:
            raise Transient("connection reset by storage.internal", error_kind="ConnectionResetError")
        return {"stored": f"s3://artifacts/{job.payload['turn']}"}

    @sf.handler("analytics_ingest")
    async def ingest(_job: Any) -> None:
        raise Transient("warehouse answered 503: maintenance until 09:00", error_kind="HTTPStatusError")

    @sf.handler("identity_provision", replay="verify_first", effects=[Effect("account", lambda _job: True)])
    async def provision(job: Any) -> dict[str, str]:
        if job.payload.get("tenant") == "umbrella":
            raise Permanent("tenant umbrella has no seats left", error_kind="SeatsExhausted")
        return {"account": job.payload["user"]}

    @sf.handler("payouts", risk="high")
    async def pay(_job: Any) -> None:
        raise Permanent("bank refused: account closed", error_kind="BankRefused")

    @sf.handler("refunds", consent=True)
    async def refund(_job: Any) -> None: ...

    for name in ("pay", "pack", "invoice", "mail"):
        sf.handler(name)(lambda job: {"done": job.queue})

    @sf.handler("ship")
    async def ship(_job: Any) -> None:
        raise Permanent("carrier does not know this address", error_kind="AddressUnknown")

    return sf


async def furnish(sf: Standfast) -> dict[str, str]:
    """Fill it; give what the pictures are of."""
    await sf.policy.load(POLICY)
    for turn in range(40):
        await sf.enqueue("artifact_delivery", {"turn": turn}, requester="build-bot")
    for batch in range(14):
        await sf.enqueue("analytics_ingest", {"batch": batch, "rows": 5000}, requester="etl")
    for user in ("ann", "bo", "cy", "di"):
        tenant = "umbrella" if user in "cy di" else "acme"
        request = {"user": user, "tenant": tenant, "api_key": "sk_live_0123456789abcdef"}
        await sf.enqueue("identity_provision", request, idempotency_key=f"provision-{user}", requester="portal")
    paid = await sf.enqueue("payouts", {"to": "DE02 1203 0000 0000 2020 51", "amount": 1250}, requester="ledger")
    for number in (4711, 4712):
        await sf.enqueue("refunds", {"order": number, "amount": 90}, session="support-chat-12", requester="assistant")
    await sf.consent.grant(
        "support-chat-11", "refunds", mode="timed", seconds="1h", by="olga", reason="she asked for it"
    )
    order = sf.workflow("order")
    first = order.step("pay", "pay", {"order": 7})
    packed = order.step("pack", "pack", after=[first])
    billed = order.step("invoice", "invoice", after=[first])
    shipped = order.step("ship", "ship", after=[packed])
    order.step("mail", "mail", after=[shipped, billed])
    workflow = await order.start(idempotency_key="order-7")
    await sf.schedules.add("weekly report", "mail", {"to": "team"}, cron="0 9 * * 1-5", tz="Europe/Berlin")
    await sf.schedules.add("heartbeat", "mail", {"to": "ops"}, every="15m")
    await sf.enqueue("artifact_delivery", {"turn": 99}, delay="2h")
    await _settled(sf, str(paid.id))
    letter = (await sf.dead_letters.list({"queue": "payouts"}))[0]
    changed = {"to": "DE02 1203 0000 0000 2020 51", "amount": 1200}
    await sf.dead_letters.amend(letter.id, changed, by="olga", reason="fee was charged twice")
    said = await sf.dead_letters.replay(letter.id, by="olga", reason="the account is open again")
    [group, *_] = await sf.dead_letters.groups({"queue": "identity_provision"})
    plan = await sf.dead_letters.plan({"fingerprint": group["fingerprint"]})
    redrive = await sf.dead_letters.redrive(plan["token"], by="olga", canary=1, halt_on=0.5, reason="seats were added")
    sample = (await sf.dead_letters.list({"queue": "analytics_ingest"}))[0]
    return {"approval": said["approval"], "workflow": workflow, "redrive": redrive.id, "job": sample.id}


async def _settled(sf: Standfast, last: str) -> None:
    """Wait until nothing more happens by itself."""
    await sf.wait(last, 30)
    while (await sf.stats())["total_dead_letter"] < 20:  # noqa: ASYNC110 - 14 batches, 2 seats, 2 refunds, a payout, a parcel
        await asyncio.sleep(0.1)


def pages(made: dict[str, str]) -> dict[str, str]:
    """Name the pictures and the addresses they are of."""
    return {
        "overview": "/",
        "queues": "/queues",
        "queue": "/queues/analytics_ingest",
        "jobs": "/jobs",
        "job": f"/jobs/{made['job']}",
        "dead-letters": "/dead-letters",
        "redrive": f"/redrives/{made['redrive']}",
        "redrives": "/redrives",
        "approvals": "/approvals",
        "approval": f"/approvals/{made['approval']}",
        "consents": "/consents",
        "workflow": f"/workflows/{made['workflow']}",
        "workflows": "/workflows",
        "schedules": "/schedules",
        "workers": "/workers",
        "audit": "/audit/verify",
        "policy": "/policy",
        "tokens": "/tokens",
    }


def take(house: House, browser: Browser, made: dict[str, str], to: Path) -> None:
    """Take every picture."""
    context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(house.link("olga", "admin"))
    page.wait_for_url(f"{house.url}/")
    page.wait_for_timeout(9000)  # so that the charts have something to show
    for name, address in pages(made).items():
        page.goto(house.url + address)
        page.wait_for_timeout(2500 if name == "overview" else 200)
        page.screenshot(path=to / f"{name}.png")
    page.emulate_media(color_scheme="dark")
    page.goto(house.url)
    page.wait_for_timeout(2500)
    page.screenshot(path=to / "overview-dark.png")
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.goto(f"{house.url}/dead-letters")
    page.screenshot(path=to / "dead-letters-phone.png")
    page.emulate_media(color_scheme="light")
    page.goto(house.url)
    page.wait_for_timeout(2500)
    page.screenshot(path=to / "overview-phone.png", full_page=True)


async def busy(sf: Standfast) -> None:
    """Let work come in while the pictures are taken."""
    for turn in range(3000):
        await sf.enqueue("artifact_delivery", {"turn": 100 + turn}, requester="build-bot")
        await asyncio.sleep(0.05)


def main() -> None:
    """Make a store, and write a picture of every page of it."""
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, House(workshop(Path(place))) as house, sync_playwright() as player:
        made = house.ask(furnish)
        coming = asyncio.run_coroutine_threadsafe(busy(house.sf), house._loop)  # noqa: SLF001
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        take(house, browser, made, to)
        coming.cancel()
        browser.close()


if __name__ == "__main__":
    main()

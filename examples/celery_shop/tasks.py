"""A small shop as Celery's own documentation would have it: mail, thumbnails, a nightly report, a chord.

The only difference between Celery and standfast is the import below. Set SHOP_ON=celery to run it on Celery.

    SHOP_ON=standfast STANDFAST_URL=sqlite:///shop.db standfast worker tasks:app
    SHOP_ON=celery celery -A tasks worker -B
"""

from __future__ import annotations

import os
import time
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or os.environ.get("SHOP_ON", "standfast") == "standfast":
    from standfast.celery import Celery, Task, chain, chord, group, shared_task
    from standfast.celery.schedules import crontab
    from standfast.celery.utils.log import get_task_logger
else:
    from celery import Celery, Task, chain, chord, group, shared_task
    from celery.schedules import crontab
    from celery.utils.log import get_task_logger

log = get_task_logger(__name__)
FAILED_TRIES = 2
OUTBOX = Path(os.environ.get("SHOP_OUTBOX", "outbox"))

app = Celery("shop", broker=os.environ.get("SHOP_BROKER", ""))
app.conf.update(
    timezone="Europe/Berlin",
    task_routes={"tasks.send_mail": {"queue": "mail"}, "tasks.thumbnail": {"queue": "images"}},
    beat_schedule={
        "nightly-report": {"task": "tasks.nightly_report", "schedule": crontab(hour=2, minute=30), "args": ("all",)},
        "heartbeat": {"task": "tasks.heartbeat", "schedule": 3600.0},
    },
)


class MailServerDown(Exception):
    """The mail server does not answer."""


class ShopTask(Task):
    """Tells the shop of every task that failed for good."""

    def on_failure(self, exc: BaseException, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        """Write it down."""
        del task_id, args, kwargs, einfo
        write("failed", f"{self.name} {type(exc).__name__}")


def write(name: str, line: str) -> None:
    """Append a line to a file of the outbox: what the outside world sees."""
    OUTBOX.mkdir(parents=True, exist_ok=True)
    with (OUTBOX / name).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def lines(name: str) -> list[str]:
    """Read the lines of a file of the outbox."""
    path = OUTBOX / name
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@app.task(bind=True, max_retries=3, default_retry_delay=0)
def send_mail(self: Any, to: str, subject: str = "Your order") -> str:
    """Send a mail; the server is down for the first tries of an address with "busy" in it."""
    if "busy" in to and self.request.retries < FAILED_TRIES:
        raise self.retry(exc=MailServerDown(to), countdown=0)
    write("mail", f"{to}: {subject}")
    return f"sent to {to}"


@app.task(autoretry_for=(MailServerDown,), retry_backoff=True, retry_jitter=False, retry_backoff_max=1, max_retries=1)
def unreachable(to: str) -> None:
    """Fail on every try."""
    raise MailServerDown(to)


@app.task
def thumbnail(picture: str, width: int = 100) -> dict[str, Any]:
    """Make a thumbnail; it takes a moment, so that a worker can be killed in the middle."""
    write("thumbnails_begun", picture)
    time.sleep(float(os.environ.get("SHOP_SLOW", "0")))
    write("thumbnails", f"{picture}@{width}")
    return {"picture": picture, "width": width}


@app.task
def gallery(thumbnails: list[dict[str, Any]], title: str) -> str:
    """Put thumbnails together."""
    names = ", ".join(each["picture"] for each in thumbnails)
    write("gallery", f"{title}: {names}")
    return f"{title}: {names}"


@app.task
def price(item: str) -> int:
    """Look a price up."""
    return {"tea": 4, "pot": 25}[item]


@app.task
def with_tax(net: int, percent: int = 25) -> int:
    """Add a tax."""
    return net + net * percent // 100


@shared_task
def total(prices: list[int]) -> int:
    """Add prices."""
    return sum(prices)


@app.task(base=ShopTask)
def charge(card: str) -> None:
    """Fail at once: nothing asks for a retry."""
    raise ValueError(f"card {card} was declined")


@app.task(ignore_result=True)
def nightly_report(scope: str) -> str:
    """Report."""
    write("reports", scope)
    return "not kept"


@app.task
def heartbeat() -> str:
    """Say that it lives."""
    return "alive"


@app.task
def due_on(day: date, days: int) -> date:
    """Return a day with days added: dates pass through as they do with Celery."""
    return date.fromordinal(day.toordinal() + days)


def place_order(item: str, pictures: list[str]) -> tuple[Any, Any, Any]:
    """Place an order: a mail, a price by a chain, a gallery by a chord."""
    mail = send_mail.apply_async(("ann@example.com",), {"subject": f"Your {item}"}, countdown=0, expires=3600)
    cost = chain(price.s(item), with_tax.s(percent=50))()
    shown = chord([thumbnail.s(picture, width=64) for picture in pictures])(gallery.s(title=item))
    return mail, cost, shown


def basket(items: list[str]) -> Any:
    """Price a basket: a group, and its sum."""
    return (group(price.s(item) | with_tax.s() for item in items) | total.s()).apply_async()

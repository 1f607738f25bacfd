"""The example shop with a worker process of its own, on every kind of store, killed in the middle once."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

from tests.doors.processes import PACKAGES, WorkerProcess, eventually
from tests.warm import run_warm

SHOP = Path(__file__).parents[2] / "examples" / "celery_shop"
PATIENCE = 30


def load(monkeypatch: pytest.MonkeyPatch, where: Path, *, on: str) -> ModuleType:
    """Import the shop anew, on Celery or on standfast; its own module name is `tasks`, as for a worker."""
    monkeypatch.setenv("SHOP_ON", on)
    monkeypatch.setenv("SHOP_OUTBOX", str(where))
    spec = importlib.util.spec_from_file_location("tasks", SHOP / "tasks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "tasks", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shop(every_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("STANDFAST_URL", every_url)
    monkeypatch.setenv("PYTHONPATH", f"{PACKAGES}{os.pathsep}{SHOP}")
    return load(monkeypatch, tmp_path / "outbox", on="standfast")


def worker(**environment: str) -> WorkerProcess:
    """Start `standfast worker tasks:app` where the shop is."""
    return WorkerProcess("tasks:app", PYTHONPATH=f"{PACKAGES}{os.pathsep}{SHOP}", **environment)


def test_the_shop_runs_with_its_import_changed(shop: ModuleType):
    mail, cost, gallery = shop.place_order("tea", ["a.png", "b.png"])
    basket, busy = shop.basket(["tea", "pot"]), shop.send_mail.delay("busy@example.com")
    declined, unreachable = shop.charge.delay("77"), shop.unreachable.delay("nobody")
    with worker() as running:
        assert mail.get(PATIENCE) == "sent to ann@example.com"
        assert (cost.get(PATIENCE), basket.get(PATIENCE)) == (6, 36)
        assert gallery.get(PATIENCE) == "tea: a.png, b.png"
        assert busy.get(PATIENCE) == "sent to busy@example.com"
        assert shop.due_on.delay(date(2026, 1, 30), 3).get(PATIENCE) == date(2026, 2, 2)
        with pytest.raises(ValueError, match="card 77 was declined"):
            declined.get(PATIENCE)
        with pytest.raises(shop.MailServerDown):
            unreachable.get(PATIENCE)
        running.signal(signal.SIGTERM)
        assert running.ends() == 0
    assert sorted(shop.lines("mail")) == ["ann@example.com: Your tea", "busy@example.com: Your order"]
    assert sorted(shop.lines("thumbnails")) == ["a.png@64", "b.png@64"]
    assert shop.lines("failed") == ["tasks.charge ValueError"]


def test_a_worker_killed_in_the_middle_of_a_chord_loses_nothing(shop: ModuleType):
    """With Celery's defaults the thumbnail would be gone, and the gallery would wait for good."""
    _, _, gallery = shop.place_order("pot", ["a.png", "b.png"])
    with worker(SHOP_SLOW="60") as killed:
        eventually(lambda: sorted(shop.lines("thumbnails_begun")) == ["a.png", "b.png"])
        killed.signal(signal.SIGKILL)
        killed.ends()
    assert (shop.lines("thumbnails"), gallery.ready()) == ([], False)
    with worker():
        assert gallery.get(PATIENCE) == "pot: a.png, b.png"
    assert sorted(shop.lines("thumbnails")) == ["a.png@64", "b.png@64"]
    assert sorted(shop.lines("thumbnails_begun")) == ["a.png", "a.png", "b.png", "b.png"]


def test_worker_main_is_a_worker(shop: ModuleType):
    mail, cost = shop.send_mail.delay("ann@example.com"), shop.price.delay("tea")
    program = "from tasks import app; app.worker_main(['worker', '-l', 'INFO', '-Q', 'mail', '-c', '2', '-B'])"
    with subprocess.Popen([sys.executable, "-c", program]) as running:
        try:
            assert mail.get(PATIENCE) == "sent to ann@example.com"
            assert cost.state == "PENDING"  # its queue is not served
        finally:
            running.terminate()
        assert running.wait(PATIENCE) == 0
    refused = "from tasks import app; app.worker_main(['worker', '--pool=gevent'])"
    said = run_warm([sys.executable, "-c", refused], capture_output=True, check=False).stderr.decode()
    assert "'--pool=gevent' of `celery worker` does not map" in said


def eager(module: ModuleType) -> dict[str, object]:
    """Run the shop's canvases here and now, and tell what came of them."""

    def told(result):
        got = result.get(propagate=False)
        return result.state, repr(got)

    return {
        "mail": told(module.send_mail.apply(("busy@x",))),
        "declined": told(module.charge.apply(("77",))),
        "unreachable": told(module.unreachable.apply(("x",))),
        "date": told(module.due_on.apply((date(2026, 1, 30), 3))),
        "chain": told(module.chain(module.price.s("tea"), module.with_tax.s(percent=50)).apply()),
        "immutable": told(module.chain(module.price.s("tea"), module.heartbeat.si()).apply()),
        "group": module.group(module.price.s(each) for each in ("tea", "pot")).apply().get(),
        "chord": told(module.chord([module.thumbnail.s(p) for p in "ab"], module.gallery.s(title="t")).apply()),
        "basket": told(
            (module.group(module.price.s(i) | module.with_tax.s() for i in ("tea", "pot")) | module.total.s()).apply()
        ),
        "group after task": chained_group(module),
        "partial": told(module.price.s().apply(("pot",))),
        "kwargs": told(module.with_tax.s(100).apply(kwargs={"percent": 7})),
        "names": sorted(name for name in module.app.tasks if not name.startswith("celery.")),
        "outbox": {name: sorted(module.lines(name)) for name in ("mail", "failed", "gallery")},
    }


def chained_group(module: ModuleType) -> object:
    return module.chain(module.price.s("tea"), module.group(module.with_tax.s(), module.with_tax.s(50))).apply().get()


def test_what_runs_eagerly_ends_as_it_does_with_celery_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("STANDFAST_URL", ":memory:")
    ours = eager(load(monkeypatch, tmp_path / "standfast", on="standfast"))
    theirs = eager(load(monkeypatch, tmp_path / "celery", on="celery"))
    assert ours == theirs
    assert ours["mail"] == ("SUCCESS", "'sent to busy@x'")

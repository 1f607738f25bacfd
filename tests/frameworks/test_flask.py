"""Flask: views enqueue with plain calls, handlers run in a context of the application, and its commands run them."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import Any

import pytest
from flask import Flask, current_app, g

from standfast import ConfigurationError, Standfast
from standfast.flask import current_standfast, init_app
from standfast.testing import drain


@pytest.fixture
def url(tmp_path) -> str:
    return str(tmp_path / "queue.db")


@pytest.fixture
def app(tmp_path, url) -> Flask:
    made = Flask("shop")
    made.config.update(STANDFAST_URL=url, DATABASE=str(tmp_path / "shop.db"))
    return made


def run(sf: Standfast, *ids: str | None) -> list[Any]:
    """Run what is due; give what became of these."""

    async def ran() -> list[Any]:
        await drain(sf)
        found = [await sf.status(each) for each in ids]
        await sf.close()
        return found

    return asyncio.run(ran())


def test_views_enqueue_and_handlers_see_the_application(app):
    sf = init_app(app)
    assert app.extensions["standfast"] is sf

    @app.post("/mail/<to>")
    def mail(to: str) -> Any:
        return {"id": current_standfast.enqueue_sync("mail", {"to": to}).id}

    @sf.handler("mail")
    def send(job: Any) -> str:
        assert g.get("seen") is None, "each attempt has a context of its own"
        g.seen = True
        return f"{current_app.name}: {job.payload['to']}"

    ids = [app.test_client().post(f"/mail/{to}").get_json()["id"] for to in ("ann", "bob")]
    assert [job.result for job in run(sf, *ids)] == ["shop: ann", "shop: bob"]


def test_async_handlers_see_it_too(app):
    sf = init_app(app)

    @sf.handler("mail")
    async def send(_job: Any) -> str:
        await asyncio.sleep(0)
        return current_app.name

    [job] = run(sf, sf.enqueue_sync("mail").id)
    assert job.result == "shop"


def test_handlers_declared_before_the_application_exists_see_it(app, url):
    sf = Standfast(url)

    @sf.handler("mail")
    def send(_job: Any) -> str:
        """Send it."""
        return current_app.name

    assert init_app(app, sf) is sf
    [job] = run(sf, sf.enqueue_sync("mail").id)
    assert job.result == "shop"
    assert (send.function.__name__, send.function.__doc__) == ("send", "Send it.")


@pytest.mark.parametrize("fails", [False, True])
def test_the_context_is_left_in_the_thread_that_entered_it(app, fails):
    """The pattern of Flask's tutorial: a connection in `g`, closed by its thread when the context is torn down."""
    sf, torn_down = init_app(app), []
    sf.queue("orders", attempts=1)

    @app.teardown_appcontext
    def close(_error: BaseException | None) -> None:
        if "db" in g:
            g.db.close()  # raises in any other thread
            torn_down.append(threading.get_ident())

    @sf.handler("orders")
    def count(_job: Any) -> int:
        g.db = sqlite3.connect(app.config["DATABASE"])
        if fails:
            raise RuntimeError("no orders")
        [(number,)] = g.db.execute("SELECT 7")
        torn_down.append(threading.get_ident())
        return int(number)

    [job] = run(sf, sf.enqueue_sync("orders").id)
    assert (job.state, job.result) == (("dead", None) if fails else ("completed", 7))
    assert len(set(torn_down)) == 1


def test_an_application_has_one_queue(app, url):
    with app.app_context(), pytest.raises(ConfigurationError, match="has no queue"):
        current_standfast.enqueue_sync("mail")
    init_app(app, Standfast(url))
    with pytest.raises(ConfigurationError, match="twice"):
        init_app(app, Standfast(url))


def test_the_newest_application_of_a_queue_counts(url):
    """As tests of an application factory have it: a new application for each of them, and one queue in a module."""
    sf = Standfast(url)
    sf.handler("mail")(lambda _job: current_app.name)
    for name in ("first", "second"):
        init_app(Flask(name), sf)
    [job] = run(sf, sf.enqueue_sync("mail").id)
    assert job.result == "second"


def test_the_default_queue_is_taken_where_none_is_named(monkeypatch, url):
    monkeypatch.setattr("standfast.flask.extension.default", lambda: Standfast(url))
    assert init_app(Flask("shop")).settings.url.value == url


def test_its_command_line_has_standfasts(app, url, monkeypatch):
    sf = init_app(app)
    monkeypatch.setenv("STANDFAST_URL", url)  # so that what the command sets is put back
    receipt = sf.enqueue_sync("mail", {"to": "ann"})
    asyncio.run(sf.close())
    done = app.test_cli_runner().invoke(args=["standfast", "status", receipt.id or "", "--json"])
    assert (done.exit_code, '"queue":"mail"' in done.output.replace(" ", "")) == (0, True), (done.output, url)
    unknown = app.test_cli_runner().invoke(args=["standfast", "stauts"])
    assert unknown.exit_code == 2

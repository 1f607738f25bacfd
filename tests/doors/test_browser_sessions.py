"""A browser's cookie is not the token it signed in with: it counts at one address, for a while, until it signs out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from standfast import ConfigurationError, Standfast
from standfast.application.wings import store_at
from standfast.server import cookies, grant_cache
from standfast.server.app import Server
from standfast.server.auth import CSRF_HEADER
from standfast.settings import load
from standfast.wings.access.words import fingerprint
from standfast.wings.backup.verbs import restore
from standfast.wings.tokens import session_scripts as browser_sessions
from standfast.wings.tokens.browser_sessions import BrowserSessions
from standfast.worker import upkeep
from standfast.worker.upkeep import PruneRequest
from tests.doors.browsing import HERE, session_of, sign_in
from tests.waiting import seen

API = "/api/v1"
PAGE = {"Accept": "text/html"}


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every request ask the store, as one does a second later."""
    monkeypatch.setattr(grant_cache, "LASTS", 0.0)


@pytest.fixture
def sf(furnished: Standfast) -> Standfast:
    return furnished


@asynccontextmanager
async def browser(
    sf: Standfast, address: str = HERE, server: Server | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """Open a browser at the address of a server."""
    serving = server or Server(sf)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=serving.app), base_url=address) as client:
        yield client
    if server is None:
        await serving.close()


async def new_token(sf: Standfast, name: str = "ann", role: str = "admin", **more: Any) -> str:
    return str((await sf.tokens.create(name, person=name, role=role, **more))["token"])


def short(sf: Standfast, idle: float, lifetime: float) -> None:
    """Have sessions end soon."""
    sf.browser_sessions = BrowserSessions(sf._store, sf._ready, sf.tokens, idle=idle, lifetime=lifetime)  # noqa: SLF001


async def status(client: httpx2.AsyncClient, path: str = "/", **headers: str) -> int:
    return (await client.get(path, headers=headers)).status_code


async def test_the_cookie_does_not_hold_the_token_and_is_no_token(sf: Standfast) -> None:
    """A stolen cookie is useless as `Authorization`, and a token is useless as a cookie."""
    token = await new_token(sf)
    async with browser(sf) as client, browser(sf) as thief:
        answer = await client.post("/sign-in", data={"token": token})
        assert token not in answer.headers["set-cookie"]
        secret = session_of(client)
        assert await status(client, f"{API}/stats") == 200
        assert await status(thief, f"{API}/stats", Authorization=f"Bearer {secret}") == 401
        thief.cookies.set(cookies.name_at(HERE), token)
        assert await status(thief, f"{API}/stats") == 401


async def test_a_cookie_of_another_port_does_not_count(sf: Standfast) -> None:
    """Browsers send a cookie to every port of a host: two servers of one store do not take each other's."""
    token = await new_token(sf)
    async with browser(sf, f"{HERE}:8080") as client, browser(sf, f"{HERE}:9090") as other:
        await sign_in(client, token, f"{HERE}:8080")
        secret = session_of(client)
        for name in (cookies.name_at(f"{HERE}:8080"), cookies.name_at(f"{HERE}:9090")):
            other.cookies.clear()
            other.cookies.set(name, secret)
            assert await status(other) == 401
        other.cookies.clear()
        await sign_in(other, token, f"{HERE}:9090")
        assert (await status(client), await status(other)) == (200, 200), "neither signed the other out"


async def test_a_cookie_of_another_store_does_not_count(sf: Standfast, tmp_path: Path) -> None:
    """Whatever its port is."""
    async with Standfast(tmp_path / "other.db") as another, browser(another) as client, browser(sf) as other:
        await sign_in(client, await new_token(another))
        other.cookies.set(cookies.name_at(HERE), session_of(client))
        assert (await status(client), await status(other)) == (200, 401)


async def test_signing_in_never_keeps_a_session_that_was_there_before(sf: Standfast) -> None:
    """One that an attacker planted gets no rights, and a real one of the attacker's ends."""
    token, own = await new_token(sf), await new_token(sf, "eve", "viewer")
    async with browser(sf) as attacker:
        await sign_in(attacker, own)
        for planted in ("planted", session_of(attacker)):
            shown = {"Cookie": f"{cookies.name_at(HERE)}={planted}"}
            async with browser(sf) as victim:
                await victim.post("/sign-in", data={"token": token}, headers=shown)
                assert session_of(victim) != planted
                assert await status(victim) == 200
            async with browser(sf) as copy:
                assert await status(copy, **shown) == 401


async def test_signing_out_ends_the_session_at_every_server(sf: Standfast) -> None:
    """Also for whoever copied the cookie."""
    one, two = Server(sf), Server(sf)
    async with browser(sf, server=one) as client, browser(sf, server=two) as copy:
        known = await sign_in(client, await new_token(sf))
        copy.cookies.update(client.cookies)
        assert (await status(client), await status(copy)) == (200, 200)
        unasked = await client.post("/sign-out", data={"csrf": "wrong"})
        assert (unasked.status_code, await status(copy)) == (303, 200)
        await client.post("/sign-out", data={"csrf": known})
        assert (await status(client), await status(copy)) == (401, 401)
    await one.close()
    await two.close()


async def test_what_signs_out_here_is_forgotten_here_at_once(sf: Standfast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although a server remembers for a second what a cookie stands for."""
    monkeypatch.setattr(grant_cache, "LASTS", 60.0)
    server = Server(sf)
    async with browser(sf, server=server) as client, browser(sf, server=server) as copy:
        known = await sign_in(client, await new_token(sf))
        copy.cookies.update(client.cookies)
        assert await status(copy) == 200
        await client.post("/sign-out", data={"csrf": known})
        assert await status(copy) == 401
    await server.close()


async def test_a_session_ends_with_its_token(sf: Standfast) -> None:
    """Revoked or expired."""
    async with browser(sf) as revoked, browser(sf) as expired:
        await sign_in(revoked, await new_token(sf))
        await sign_in(expired, await new_token(sf, "tmp", expires=0.5))
        await sf.tokens.revoke("ann")
        assert await status(revoked) == 401
        await seen(lambda: _is(expired, 401))


async def _is(client: httpx2.AsyncClient, expected: int) -> bool:
    return await status(client, **PAGE) == expected


async def test_forms_of_an_earlier_session_change_nothing(sf: Standfast) -> None:
    """What a page carries against forgery belongs to the session that the page was given to."""
    token = await new_token(sf)
    async with browser(sf) as client:
        before = await sign_in(client, token)
        now = await sign_in(client, token)
        await sf.enqueue("echo", 1)
        old, new = ({CSRF_HEADER: known, "Origin": HERE} for known in (before, now))
        assert (await client.post(f"{API}/queues/echo/pause", headers=old)).status_code == 403
        assert (await client.post(f"{API}/queues/echo/pause", headers=new)).status_code == 200


async def test_a_browser_that_is_idle_is_signed_out(sf: Standfast) -> None:
    """An open page that only redraws itself is idle."""
    short(sf, idle=0.4, lifetime=60)
    async with browser(sf) as client:
        await sign_in(client, await new_token(sf))
        redrawn = {**PAGE, "HX-Request": "true"}

        async def ended() -> bool:
            return await status(client, **redrawn) == 401

        assert not await ended()
        await seen(ended)


async def test_a_browser_in_use_stays_signed_in_until_its_session_is_too_old(sf: Standfast) -> None:
    """Each visit puts the end off, and none puts it off for ever."""
    short(sf, idle=1.0, lifetime=2.5)
    signed_in: list[float] = []
    async with browser(sf) as client:
        await sign_in(client, await new_token(sf))
        began = sf._store.now()  # noqa: SLF001

        async def ended() -> bool:
            asked = sf._store.now()  # noqa: SLF001
            if await status(client, **PAGE) == 401:
                return True
            signed_in.append(asked - began)
            return False

        await seen(ended)
        assert 1.0 < signed_in[-1] <= 2.5
        await sign_in(client, await new_token(sf, "again"))
        assert await status(client) == 200


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "queue.db" if request.param == "file" else request.getfixturevalue("postgres_url"))


async def test_a_restart_keeps_browsers_signed_in(url: str) -> None:
    """Another server of the same store knows them too."""
    async with Standfast(url) as first, browser(first) as client:
        await sign_in(client, await new_token(first))
    async with Standfast(url) as second, browser(second) as other:
        other.cookies.update(client.cookies)
        assert await status(other) == 200


async def test_sessions_that_ended_are_deleted_and_a_token_has_so_many(
    sf: Standfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_sessions, "MOST", 2)
    token = (await sf.tokens.create("ann", person="ann", role="viewer"))["id"]
    secrets = [await sf.browser_sessions.open(token, HERE) for _ in range(3)]
    counted = [await sf.browser_sessions.grant(each, HERE) is not None for each in secrets]
    assert counted.count(True) == 2
    short(sf, idle=60, lifetime=0.001)
    await sf.browser_sessions.open(token, "http://gone")

    async def pruned() -> bool:
        await sf._store.write(upkeep.prune, PruneRequest())  # noqa: SLF001
        rows = [await sf._store.read(browser_sessions.one(fingerprint(each), HERE)) for each in secrets]  # noqa: SLF001
        return sum(row is not None for row in rows) == 1

    await seen(pruned)


async def test_a_restored_store_knows_no_browser(tmp_path: Path) -> None:
    """Who signed out after the backup was made stays signed out."""
    async with Standfast(tmp_path / "queue.db") as sf, browser(sf) as client:
        await sign_in(client, await new_token(sf))
        await sf.backup(tmp_path / "backup.db")
    restore(f"sqlite:///{tmp_path / 'new.db'}", tmp_path / "backup.db", store_at)
    async with Standfast(tmp_path / "new.db") as restored, browser(restored) as other:
        other.cookies.update(client.cookies)
        assert await status(other) == 401
        assert [each["name"] for each in await restored.tokens.list()] == ["ann"]


async def test_over_tls_no_sibling_domain_can_plant_a_cookie(sf: Standfast) -> None:
    async with browser(sf, "https://127.0.0.1") as client:
        answer = await client.post("/sign-in", data={"token": await new_token(sf)})
        said = answer.headers["set-cookie"]
        assert said.startswith("__Host-standfast_session_")
        assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= {part.strip() for part in said.split(";")}
        assert "domain" not in said.lower()
        assert await status(client) == 200


def test_how_long_a_session_lasts_is_set_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "standfast.toml"
    file.write_text('[server]\nsession_idle = "15m"\nsession_lifetime = "8h"\n')
    found = load(None, {"STANDFAST_CONFIG": str(file)})
    assert (found.session_idle.value, found.session_lifetime.value) == (900.0, 8 * 3600.0)
    file.write_text('[server]\nsession_idle = "0s"\n')
    with pytest.raises(ConfigurationError, match=r"\[server\] session_idle"):
        load(None, {"STANDFAST_CONFIG": str(file)})

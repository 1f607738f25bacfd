"""A browser without a window: it signs in with a token, and keeps the cookie it was given."""

from __future__ import annotations

import httpx2

from standfast.server import cookies

HERE = "http://127.0.0.1"


async def sign_in(client: httpx2.AsyncClient, token: str, address: str = HERE) -> str:
    """Sign a browser in; give what its forms must carry."""
    answer = await client.post(f"{address}/sign-in", data={"token": token})
    assert answer.status_code == 200, answer.text
    return cookies.csrf(session_of(client))


def session_of(client: httpx2.AsyncClient) -> str:
    """Give the secret of the one session that a browser has."""
    [secret] = [value for name, value in client.cookies.items() if cookies.PREFIX in name]
    return secret

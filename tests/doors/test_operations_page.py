"""The grants of docs/operations.md are enough, and no more is needed: tried on a server with both roles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast import ConfigurationError, Standfast
from tests.postgres import connect, fresh_schema, in_schema

PAGE = (Path(__file__).parents[2] / "docs/operations.md").read_text()
SCHEMA = "queue"


class Roles:
    """The page's roles and schema, under names of one test."""

    def __init__(self, server: str) -> None:
        self.server, self.name = server, fresh_schema()
        [statements] = re.findall(r"```sql\n(.*?)```", PAGE.replace("DATABASE app", "DATABASE postgres"), re.DOTALL)
        self.statements = re.sub(rf"\b{SCHEMA}\b|\b{SCHEMA}_(?=owner|app)", self._renamed, statements)

    def _renamed(self, found: re.Match[str]) -> str:
        return found[0].replace(SCHEMA, self.name)

    def url(self, role: str) -> str:
        return in_schema(self.server.replace("//postgres@", f"//{self.name}_{role}@"), self.name)


@pytest.fixture
def roles(shared_server: str) -> Iterator[Roles]:
    made = Roles(shared_server)
    with connect(shared_server) as owner:
        owner.execute(made.statements)
        yield made
        owner.execute(f"DROP SCHEMA {made.name} CASCADE")
        for role in ("owner", "app"):
            owner.execute(f"DROP OWNED BY {made.name}_{role}; DROP ROLE {made.name}_{role}")


async def test_an_application_runs_with_the_grants_of_the_page_once_the_owner_has_migrated(roles: Roles) -> None:
    async with Standfast(roles.url("owner")):
        pass
    async with Standfast(roles.url("app")) as sf:
        sf.handler("mail")(lambda job: job.payload)
        receipt = await sf.enqueue("mail", {"to": "ann"}, idempotency_key="ann")
        async with sf.worker():
            job = await sf.wait(receipt.id, timeout=20)
        assert (job.state, job.result) == ("completed", {"to": "ann"})


async def test_an_application_that_may_not_migrate_says_so_at_once(roles: Roles) -> None:
    with pytest.raises(ConfigurationError, match="permission denied"):
        async with Standfast(roles.url("app")):
            pass

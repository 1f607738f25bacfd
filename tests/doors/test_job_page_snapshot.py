"""The page of a job is of one moment: its state, its buttons and the sentence that explains it agree."""

from __future__ import annotations

import re
from typing import Any

import pytest

from standfast import Standfast
from standfast.dashboard.shared_cache import SharedCache
from tests.doors.test_dashboard import Browsers


async def test_the_page_of_a_job_that_moves_while_it_is_made_does_not_contradict_itself(
    furnished: Standfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    sf, real = furnished, SharedCache.get_soon
    job = (await sf.enqueue("echo", delay=3600)).id

    async def after_the_job_moved(self: SharedCache, key: object, ask: Any) -> Any:
        await sf.cancel(job, by="ann")
        return await real(self, key, ask, None)

    browsers = Browsers(sf)
    client = await browsers.of("admin")
    monkeypatch.setattr(SharedCache, "get_soon", after_the_job_moved)
    pages = [re.sub(r"<[^>]*>|\s+", " ", (await client.get(f"/jobs/{job}")).text) for _ in range(2)]
    await browsers.close()
    assert "It is scheduled, and due in" in pages[0]
    assert "Retry now" in pages[0]
    assert "It was cancelled" not in pages[0]
    assert "It was cancelled" in pages[1]
    assert "Retry now" not in pages[1]

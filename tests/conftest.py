"""What every test shares."""

import pytest
from hypothesis import settings


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


settings.register_profile("standfast", deadline=None)  # a busy machine is no failure
settings.load_profile("standfast")

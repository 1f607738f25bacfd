"""The names that a fix would add have another meaning here."""
import asyncio
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import requests

seen = []
_kept_tasks = []


def _log_error(number):
    seen.append(f"own {number}")


def _log_error_of(_keep_task):
    _log_error(_keep_task)


def _log_swallowed(*_log_errors_in):
    raise AssertionError(_log_errors_in)


def logging(number):
    seen.append(number)


def send(number):
    logging(number)
    raise ValueError(number)


async def post(number):
    logging(number)


async def fail(number):
    raise ValueError(number)


async def main(_keep_task):
    asyncio.create_task(post(_keep_task))  # expect: dangling-task
    await asyncio.gather(fail(1), fail(2), return_exceptions=True)  # expect: gather-results-unread


def notify(pool: ThreadPoolExecutor):
    pool.submit(send, 2)  # expect: future-dropped
    try:
        requests.post("https://example.org/hook", timeout=5).raise_for_status()
    except Exception:  # expect: network-error-swallowed
        pass
    _log_error_of(3)


def check():
    seen.clear()
    asyncio.run(main(1))
    with ThreadPoolExecutor() as pool, mock.patch.object(requests, "post", side_effect=OSError("refused")):
        notify(pool)
    assert sorted(map(str, seen)) == ["1", "2", "own 3"]
    assert _kept_tasks == []

"""Everything that goes wrong is suppressed."""
from contextlib import suppress

import requests


def notify(event):
    with suppress(Exception):  # expect: io-error-suppressed
        requests.post("https://example.org/hook", json=event, timeout=5).raise_for_status()

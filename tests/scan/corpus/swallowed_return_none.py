"""The function answers None if it works, and None if it fails."""
from unittest import mock

import requests


def notify(event):
    try:
        requests.post("https://example.org/hook", json=event, timeout=5).raise_for_status()
    except requests.exceptions.RequestException:  # expect: network-error-swallowed
        return None


def check():
    with mock.patch.object(requests, "post", side_effect=requests.ConnectionError("refused")):
        assert notify({}) is None

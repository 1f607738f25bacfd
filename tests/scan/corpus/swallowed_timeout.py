"""An event that did not arrive in time is dropped."""
from unittest import mock

import requests


def deliver(events):
    for event in events:
        try:
            requests.post("https://example.org/events", json=event, timeout=5).raise_for_status()
        except requests.Timeout:  # expect: network-error-swallowed
            continue


def check():
    with mock.patch.object(requests, "post", side_effect=requests.Timeout):
        deliver([{}, {}])

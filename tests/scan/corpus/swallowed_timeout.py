"""An event that did not arrive in time is dropped."""
import requests


def deliver(events):
    for event in events:
        try:
            requests.post("https://example.org/events", json=event, timeout=5).raise_for_status()
        except requests.Timeout:  # expect: network-error-swallowed
            continue


def check():
    deliver([])

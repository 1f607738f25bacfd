"""Nobody is told."""
import requests


def notify(event):
    try:
        requests.post("https://example.org/hook", json=event, timeout=5).raise_for_status()
    except Exception:  # expect: network-error-swallowed
        pass  # best effort


def check():
    notify({1: object()})

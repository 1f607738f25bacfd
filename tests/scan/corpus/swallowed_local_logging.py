"""One function imports logging; the others cannot see it."""
import requests


def warn():
    import logging

    logging.getLogger(__name__).info("started")


def notify(event):
    try:
        requests.post("https://example.org/hook", json=event, timeout=5).raise_for_status()
    except Exception:  # expect: network-error-swallowed
        pass


def check():
    warn()
    notify({1: object()})

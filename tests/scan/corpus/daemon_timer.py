"""A timer that is a daemon may be cut off while it sends."""
import threading

import requests


def flush():
    requests.post("https://example.org/metrics", json={}, timeout=5).raise_for_status()


def later():
    timer = threading.Timer(30, flush)  # expect: daemon-thread-io
    timer.daemon = True
    timer.start()

"""Cut off in the middle of a request."""
import threading

import requests


def report(event):
    requests.post("https://example.org/events", json=event, timeout=5).raise_for_status()


def track(event):
    threading.Thread(target=report, args=(event,), daemon=True).start()  # expect: daemon-thread-io

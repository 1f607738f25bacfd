"""Joined, no daemon, or without anything to lose."""
import threading

import requests


def report():
    requests.post("https://example.org/events", timeout=5).raise_for_status()


def count():
    return sum(range(100))


def main():
    joined = threading.Thread(target=report, daemon=True)
    joined.start()
    joined.join()
    threading.Thread(target=report).start()
    threading.Thread(target=count, daemon=True).start()

"""Checked, used, or given to the caller."""
import logging

import httpx
import requests


def pay(order):
    response = requests.post("https://example.org/pay", json=order, timeout=5)
    response.raise_for_status()
    other = requests.post("https://example.org/pay", json=order, timeout=5)
    logging.info("status %s", other.status_code)
    if other.status_code >= 400:
        raise ValueError(order)
    return httpx.post("https://example.org/pay", json=order)


def warm_up():
    requests.get("https://example.org/", timeout=5)

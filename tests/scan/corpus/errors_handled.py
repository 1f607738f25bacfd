"""Told, used, tried elsewhere, or only closing."""
import logging
import socket

import requests


def notify(event):
    try:
        requests.post("https://example.org/hook", json=event, timeout=5).raise_for_status()
    except Exception:
        logging.exception("could not notify")


def price():
    found = None
    try:
        found = requests.get("https://example.org/price", timeout=5).json()
    except Exception:
        pass
    return found or 10


def first(hosts):
    for host in hosts:
        try:
            return socket.create_connection((host, 80))
        except Exception:
            continue
    raise ConnectionError


def close(connection: socket.socket):
    try:
        connection.sendall(b"bye")
    except Exception:
        pass


def parse(text):
    try:
        print(int(text))
    except Exception:
        pass

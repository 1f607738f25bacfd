"""500 is only written down."""
import logging

import requests

log = logging.getLogger(__name__)


def pay(order):
    response = requests.post("https://example.org/pay", json=order, timeout=5)  # expect: status-not-checked
    log.info("paid: %s", response.status_code)

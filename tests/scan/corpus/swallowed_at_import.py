"""The call stands between imports, and runs while the module is imported."""
import requests

try:
    requests.post("https://example.org/hook", json={1: object()}, timeout=5).raise_for_status()
except Exception:  # expect: network-error-swallowed
    pass

import json


def check():
    assert json.dumps(1) == "1"

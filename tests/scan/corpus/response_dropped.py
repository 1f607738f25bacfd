"""Nobody looks at the answer."""
import httpx


def pay(order, client: httpx.Client):
    client.post("https://example.org/pay", json=order)  # expect: status-not-checked

"""The client raises for every status itself."""
import httpx


class Client(httpx.Client):
    def send(self, *args, **options):
        response = super().send(*args, **options)
        response.raise_for_status()
        return response


def pay(order, client: httpx.Client):
    client.post("https://example.org/pay", json=order)

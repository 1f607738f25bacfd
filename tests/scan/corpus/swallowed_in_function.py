"""The network call stands in another function of the module."""
import urllib.request


def ping(url):
    urllib.request.urlopen(url, b"{}", timeout=1)


def notify():
    try:
        ping("https://example.org/hook")
    except BaseException:  # expect: network-error-swallowed
        return

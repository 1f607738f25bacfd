"""The network call stands in another function of the module."""
import urllib.request
from unittest import mock


def ping(url):
    urllib.request.urlopen(url, b"{}", timeout=1)


def notify():
    try:
        ping("https://example.org/hook")
    except BaseException:  # expect: network-error-swallowed
        return


def check():
    with mock.patch.object(urllib.request, "urlopen", side_effect=OSError("refused")):
        notify()

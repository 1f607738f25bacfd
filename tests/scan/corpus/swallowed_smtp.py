"""The mail did not go, and the loop goes on."""
import smtplib
from unittest import mock


def remind(addresses):
    server = smtplib.SMTP("localhost")
    for address in addresses:
        try:
            server.sendmail("shop@example.org", address, "pay")
        except Exception:  # expect: network-error-swallowed
            continue


def check():
    with mock.patch.object(smtplib, "SMTP") as server:
        server.return_value.sendmail.side_effect = OSError("refused")
        remind(["ann@example.org", "bob@example.org"])

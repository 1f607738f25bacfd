"""The mail did not go, and the loop goes on."""
import smtplib


def remind(addresses):
    server = smtplib.SMTP("localhost")
    for address in addresses:
        try:
            server.sendmail("shop@example.org", address, "pay")
        except Exception:  # expect: network-error-swallowed
            continue

"""Who sent it? A hash over the exact bytes that came, with a secret both sides know; compared in constant time.

Several secrets may be in force at once, so that one can be changed without losing a delivery.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from standfast.wings.ingest.arrival import Delivery, Refused

WINDOW = 300.0
"""How many seconds old, or ahead of our clock, a delivery may be if its signature covers a time."""
PREFIX = "whsec_"
"""Prefix of a Standard Webhooks secret; the rest is base64."""
MOST_SIGNATURES = 10

UNSIGNED = "sign it, with the secret that this source was configured with"
WRONG = "check that both sides have the same secret, and that nothing on the way changes the body"


HUB = "x-hub-signature-256"


def hub_is_there(delivery: Delivery, header: str = HUB) -> Refused | None:
    """Check, before the body is read, that there is a signature; None if there is."""
    return None if delivery.headers.get(header) else Refused(401, f"the delivery has no {header} header", UNSIGNED)


def hub(delivery: Delivery, secrets: Sequence[str], header: str = HUB) -> Refused | None:
    """Check a hexadecimal HMAC-SHA256 of the body, as GitHub sends it; None if it is right."""
    missing = hub_is_there(delivery, header)
    if missing is not None:
        return missing
    seen = delivery.headers[header].removeprefix("sha256=").strip().lower().encode()
    good = [_hexadecimal(secret, delivery.body) for secret in secrets]
    return None if _any_equal([seen], good) else Refused(401, "the signature does not fit the body", WRONG)


def standard_is_there(delivery: Delivery, now: float) -> Refused | None:
    """Check, before the body is read, that there is a recent signature; None if there is."""
    identity, stamp, signatures = _standard(delivery)
    if not (identity and stamp and signatures):
        return Refused(401, "the delivery lacks webhook-id, webhook-timestamp or webhook-signature", UNSIGNED)
    if not (stamp.isascii() and stamp.isdecimal()) or abs(now - int(stamp[:15])) > WINDOW:
        return Refused(
            401,
            f"webhook-timestamp is not within {WINDOW:g} seconds of now",
            "send it again with a fresh signature; if that does not help, one of the two clocks is wrong",
        )
    return None


def standard(delivery: Delivery, secrets: Sequence[str], now: float) -> Refused | None:
    """Check a Standard Webhooks signature of id, time and body; None if it is right."""
    missing = standard_is_there(delivery, now)
    if missing is not None:
        return missing
    identity, stamp, signatures = _standard(delivery)
    signed = f"{identity}.{stamp}.".encode() + delivery.body
    seen = [each[3:].encode() for each in signatures.split()[:MOST_SIGNATURES] if each.startswith("v1,")]
    good = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)) for secret in secrets for key in _keys(secret)]
    return None if _any_equal(seen, good) else Refused(401, "no signature fits the body", WRONG)


def bearer(delivery: Delivery, secrets: Sequence[str], header: str = "authorization") -> Refused | None:
    """Check a token that is the secret itself; None if it is right."""
    given = delivery.headers.get(header, "")
    scheme, _, token = given.partition(" ")
    seen = token.strip() if header == "authorization" and scheme.lower() == "bearer" else given
    if not given or (header == "authorization" and scheme.lower() != "bearer"):
        return Refused(401, f"the delivery has no token in its {header} header", UNSIGNED)
    good = [secret.encode() for secret in secrets]
    return None if _any_equal([seen.encode()], good) else Refused(401, "the token is not the secret", WRONG)


def _standard(delivery: Delivery) -> tuple[str, str, str]:
    headers = delivery.headers
    return headers.get("webhook-id", ""), headers.get("webhook-timestamp", ""), headers.get("webhook-signature", "")


def _hexadecimal(secret: str, body: bytes) -> bytes:
    return hmac.digest(secret.encode(), body, hashlib.sha256).hex().encode()


def _keys(secret: str) -> list[bytes]:
    """Return the keys that a secret can mean: decoded from base64, as in the standard, or the text itself."""
    try:
        decoded = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        decoded = b""
    return [key for key in (decoded, secret.encode()) if key]


def _any_equal(seen: Sequence[bytes], good: Sequence[bytes]) -> bool:
    """Return whether any is right; every pair is compared, so that the time taken reveals nothing."""
    return any([hmac.compare_digest(one, other) for one in seen for other in good])  # noqa: C419 - all of them

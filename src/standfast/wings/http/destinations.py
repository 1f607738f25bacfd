"""Which addresses HTTP jobs may call: every public one, and those that a queue names."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address

LOOPBACK: tuple[Address, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "localhost6", "ip6-localhost", "ip6-loopback"})
"""Names of the machine itself; so is every name below `localhost`."""

GLOBAL_UNICAST = IPv6Network("2000::/3")
"""The IPv6 space that is assigned for public use; addresses outside it are local, reserved or multicast."""
TRANSLATED = IPv6Network("64:ff9b::/96")
"""Addresses of a NAT64 gateway, which hold an IPv4 address in their last four bytes."""
SPECIAL: tuple[IPv4Network | IPv6Network, ...] = (
    IPv4Network("192.0.0.0/24"),  # some of it is a cloud's metadata service
    IPv4Network("168.63.129.16/32"),  # gives every virtual machine of one cloud its settings, secrets among them
    IPv4Network("192.88.99.0/24"),
    IPv6Network("3fff::/20"),
)
"""Special-purpose networks that the tables of some Python versions take for public."""


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
"""The name of a TOML table that needs no quotes."""


class Refused(Exception):
    """A host leads to an address that is neither public nor named."""

    def __init__(self, host: str, address: Address) -> None:
        super().__init__(f"{host} leads to {address}")
        self.host = host
        self.address = address


class Destinations:
    """What one queue may call besides public addresses: hosts, `*.suffix`, addresses, networks."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._networks = [network for entry in entries if (network := _network(entry)) is not None]
        names = [plain_name(entry) for entry in entries if _network(entry) is None]
        self._suffixes = tuple(name.removeprefix("*") for name in names if name.startswith("*."))
        self._names = frozenset(names)

    def vet(self, host: str, addresses: Iterable[Address]) -> None:
        """Raise Refused unless the host is named, or each of its addresses is public or named."""
        name = plain_name(host)
        if name in self._names or name.endswith(self._suffixes):
            return
        for address in addresses:
            if not is_public(address) and not any(address in network for network in self._networks):
                raise Refused(host, address)


@lru_cache(maxsize=256)
def destinations(entries: tuple[str, ...]) -> Destinations:
    """Read the destinations that a queue's rules name."""
    return Destinations(entries)


def is_public(address: Address) -> bool:
    """Return whether an address is on the public internet; an address inside an address decides."""
    inner = _inside(address)
    if inner is not None:
        return is_public(inner)
    if address.version == 6 and address not in GLOBAL_UNICAST:  # noqa: PLR2004 - IPv6
        return False
    return address.is_global and not address.is_multicast and not any(address in network for network in SPECIAL)


def literal(host: str) -> Address | None:
    """Read a host that is an address, however spelled: `127.0.0.1`, `::1`, `0x7f.1`, `2130706433`."""
    try:
        return as_address(host)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))  # what a resolver would take for an address too
    except OSError:
        return None


def as_address(text: str) -> Address:
    """Read an address; an IPv4 address written as IPv6 is what it is on the wire."""
    address = ip_address(text)
    return getattr(address, "ipv4_mapped", None) or address


def known_addresses(host: str) -> tuple[Address, ...]:
    """Return the addresses of a host, as far as they are known without asking a resolver."""
    address = literal(host)
    if address is not None:
        return (address,)
    name = plain_name(host)
    return LOOPBACK if name in LOCAL_NAMES or name.endswith(".localhost") else ()


def refusal(queue: str, entries: tuple[str, ...], refused: Refused) -> str:
    """Word a refusal, with the line that would allow it, in code and in the file."""
    where = str(refused.address)
    name = where if literal(refused.host) is not None else plain_name(refused.host)
    led = where if name == where else f"{name} leads to {where}, which"
    named = json.dumps([*entries, name])
    line = f"sf.queue({json.dumps(queue)}, destinations={named})"
    table = queue if _BARE_KEY.fullmatch(queue) else json.dumps(queue)
    return (
        f"{led} is no public address, and queue {queue!r} does not name it; if it is meant, declare it: {line}, "
        f"or in standfast.toml under [queues.{table}]: destinations = {named}"
    )


def plain_name(host: str) -> str:
    """Return a name in the form in which names are compared."""
    return host.lower().removesuffix(".")


def _network(entry: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(entry, strict=False)
    except ValueError:
        return None


def _inside(address: Address) -> IPv4Address | None:
    if isinstance(address, IPv4Address):
        return None
    if address in TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour

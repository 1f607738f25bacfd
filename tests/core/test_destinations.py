"""Which addresses HTTP jobs may call."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from standfast.errors import ConfigurationError
from standfast.rules import queue_rules
from standfast.wings.http.destinations import (
    LOOPBACK,
    Destinations,
    Refused,
    as_address,
    is_public,
    known_addresses,
    literal,
    refusal,
)

PUBLIC = [
    "8.8.8.8",
    "93.184.216.34",
    "2606:2800:220:1::1",
    "2a00:1450:4001::1",
    "::ffff:8.8.8.8",
    "2002:808:808::1",  # 6to4 of 8.8.8.8
    "64:ff9b::808:808",  # NAT64 of 8.8.8.8
]

NOT_PUBLIC = [
    "168.63.129.16",
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",  # noqa: S104 - an address that leads to this machine
    "0.1.2.3",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "169.254.169.254",  # the metadata service of most clouds
    "100.100.100.200",  # and of others
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",  # an old way to write 127.0.0.1
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "2001:db8::1",
    "2001::1",  # Teredo
    "3fff::1",
    "5f00::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "2002:7f00:1::1",  # 6to4 of 127.0.0.1
    "2002:a00:1::1",  # 6to4 of 10.0.0.1
    "64:ff9b::7f00:1",  # NAT64 of 127.0.0.1
    "64:ff9b::a9fe:a9fe",  # NAT64 of 169.254.169.254
    "64:ff9b:1::1",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_anybody_may_be_called_at_a_public_address(address):
    assert is_public(ip_address(address))
    Destinations(()).vet("a.host", [as_address(address)])


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_nobody_at_any_other(address):
    assert not is_public(ip_address(address))
    with pytest.raises(Refused):
        Destinations(()).vet("a.host", [as_address(address)])


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0", "0.0.0.0"),  # noqa: S104 - an address that leads to this machine
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:7f00:1", "127.0.0.1"),
        ("134744072", "8.8.8.8"),
    ],
)
def test_an_address_is_known_however_it_is_spelled(host, address):
    assert literal(host) == ip_address(address)
    assert known_addresses(host) == (ip_address(address),)


@pytest.mark.parametrize("host", ["example.com", "1.2.3.4.5", "0x", "4294967296", "a1", "127.0.0.1.example.com", ""])
def test_a_name_is_no_address(host):
    assert literal(host) is None
    assert known_addresses(host) == ()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "api.localhost", "ip6-loopback"])
def test_a_machines_own_names_are_known_to_lead_to_itself(host):
    assert known_addresses(host) == LOOPBACK


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "any.name", "127.0.0.1"),
        ("127.0.0.1", "any.name", "::ffff:127.0.0.1"),
        ("10.0.0.0/8", "any.name", "10.9.8.7"),
        ("10.1.2.3/8", "any.name", "10.9.8.7"),
        ("fd00::/8", "any.name", "fd12::1"),
        ("::1", "any.name", "::1"),
        ("db.internal", "db.internal", "10.0.0.1"),
        ("DB.internal", "db.INTERNAL.", "10.0.0.1"),
        ("*.internal", "db.internal", "10.0.0.1"),
        ("*.internal", "a.b.internal", "10.0.0.1"),
        ("localhost", "localhost", "::1"),
    ],
)
def test_what_a_queue_names_may_be_called(entry, host, address):
    Destinations(queue_rules(destinations=[entry]).destinations).vet(host, [as_address(address)])


@pytest.mark.parametrize(
    ("entry", "host", "address"),
    [
        ("127.0.0.1", "127.0.0.2", "127.0.0.2"),
        ("10.0.0.0/8", "10.0.0.1.evil.com", "127.0.0.1"),
        ("10.0.0.0/9", "any.name", "10.200.0.1"),
        ("db.internal", "other.db.internal", "10.0.0.1"),
        ("db.internal", "xdb.internal", "10.0.0.1"),
        ("*.internal", "internal", "10.0.0.1"),
        ("*.internal", "evilinternal", "10.0.0.1"),
        ("*.internal", "internal.evil.com", "10.0.0.1"),
        ("10.0.0.0/8", "any.name", "64:ff9b::a00:1"),
    ],
)
def test_and_nothing_that_only_resembles_it(entry, host, address):
    with pytest.raises(Refused):
        Destinations([entry]).vet(host, [as_address(address)])


def test_every_address_of_a_host_must_be_allowed():
    allowed, other = ip_address("127.0.0.1"), ip_address("10.0.0.1")
    Destinations(["127.0.0.1"]).vet("a.host", [allowed, ip_address("8.8.8.8")])
    with pytest.raises(Refused) as refused:
        Destinations(["127.0.0.1"]).vet("a.host", [allowed, other])
    assert refused.value.address == other


def test_a_refusal_gives_the_line_to_add_with_what_was_there():
    told = refusal("feed", ("*.internal",), Refused("127.0.0.1", ip_address("127.0.0.1")))
    assert 'sf.queue("feed", destinations=["*.internal", "127.0.0.1"])' in told
    told = refusal("feed", (), Refused("Api.Local.", ip_address("10.0.0.1")))
    assert told.startswith("api.local leads to 10.0.0.1, which is no public address")
    assert 'sf.queue("feed", destinations=["api.local"])' in told


@pytest.mark.parametrize(
    "entry",
    ["", "*", "*.", "a.*.b", "http://a.b", "a.b:80", "127.0.0.1:80", "10.0.0.0/33", "a b", "a/b", "[::1]", "10.1"],
)
def test_a_destination_that_could_never_match_is_refused_where_it_is_declared(entry):
    with pytest.raises(ConfigurationError, match="destinations cannot name"):
        queue_rules(destinations=[entry])

"""A message to others that may not have left."""
from contextlib import suppress

import redis

cache = redis.Redis.from_url("redis://localhost")
other = redis.from_url("redis://localhost")


def announce(order):
    with suppress(Exception):  # expect: io-error-suppressed
        cache.publish("orders", order)
    with suppress(Exception):  # expect: io-error-suppressed
        other.lpush("orders", order)

"""A coroutine is always true."""


async def is_paid(order):
    return order.paid


async def deliver(order):
    if not is_paid(order):  # expect: coroutine-never-awaited
        return
    print("delivered")

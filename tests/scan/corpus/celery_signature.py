"""A signature is sent like its task."""
from celery import Celery

app = Celery("shop")


@app.task
def charge(order):
    print(order)


def checkout(order):
    charge.s(order).delay()  # expect: celery-acks-early
    charge.si(order).apply_async(countdown=5)  # expect: celery-acks-early

"""Acknowledged after it ran."""
from celery import shared_task


@shared_task(acks_late=True)
def charge(order):
    print(order)

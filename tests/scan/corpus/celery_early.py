"""Acknowledged before it runs."""
from celery import Celery, shared_task

app = Celery("shop")


@app.task
def charge(order):
    print(order)


@shared_task(bind=True)
def mail(self, order):
    print(order)


def checkout(order):
    charge.delay(order)  # expect: celery-acks-early
    mail.apply_async(args=[order], countdown=5)  # expect: celery-acks-early

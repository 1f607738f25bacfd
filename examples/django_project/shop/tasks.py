"""What the shop does beside its requests."""

import time

from django.conf import settings
from django.db.models import F

from shop.models import Order

try:
    from django.tasks import task  # since Django 6.0
except ImportError:
    from django_tasks import task


@task(queue_name="mail")
def send_mail(number: int) -> str:
    """Send a mail: here, a mark in the database."""
    time.sleep(settings.SHOP_SECONDS)
    Order.objects.filter(number=number).update(mailed=F("mailed") + 1)
    return "sent"

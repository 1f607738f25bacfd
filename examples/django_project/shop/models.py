"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order, and how many mails were sent for it."""

    number = models.IntegerField(unique=True)
    mailed = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"order {self.number}"

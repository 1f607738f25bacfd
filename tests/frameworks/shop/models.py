"""What the shop keeps in its own database."""

from django.db import models


class Order(models.Model):
    """An order."""

    number = models.IntegerField()

    class Meta:
        app_label = "shop"

    def __str__(self) -> str:
        return f"order {self.number}"

"""The Django application that brings the management commands."""

from __future__ import annotations

from django.apps import AppConfig


class StandfastConfig(AppConfig):
    """It has no models: what standfast keeps is in a store of its own."""

    name = "standfast.django"
    label = "standfast"
    verbose_name = "standfast"

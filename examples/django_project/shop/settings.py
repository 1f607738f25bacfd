"""Settings of the shop."""

import os

import django

SECRET_KEY = "only an example"  # noqa: S105 - it is one
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = ["standfast.django", "shop"]
if django.VERSION < (6, 0):
    INSTALLED_APPS += ["django_tasks"]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SHOP_DATABASE", "shop.sqlite3"),
    },
}

TASKS = {
    "default": {
        "BACKEND": "standfast.django.StandfastBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"queues": {"mail": {"attempts": 10}}},
    },
}

SHOP_SECONDS = float(os.environ.get("SHOP_SECONDS", "0"))

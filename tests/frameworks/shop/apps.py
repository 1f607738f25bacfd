from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "tests.frameworks.shop"
    label = "shop"

"""A small Django application: orders, and tasks about them."""

"""Management commands, where `manage.py` looks for them."""

"""Django's tasks on standfast: a backend for `django.tasks`, and `manage.py standfast_worker`.

Set `TASKS = {"default": {"BACKEND": "standfast.django.StandfastBackend"}}` and add `"standfast.django"` to
`INSTALLED_APPS`. docs/django.md has a whole project.
"""

try:
    from standfast.django.backend import StandfastBackend
except ModuleNotFoundError as error:
    needed = f"standfast.django needs {error.name}; run: pip install 'standfast[django]'"
    raise ModuleNotFoundError(needed, name=error.name) from None

__all__ = ["StandfastBackend"]

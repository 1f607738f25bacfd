"""What Celery keeps under this name: `standfast.celery.utils.log`."""

"""The counterpart of `celery.utils`, with `standfast.celery.utils.log`."""

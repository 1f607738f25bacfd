"""The management commands: `standfast_worker` and `standfast`."""

"""`standfast bench`: the product beside raw SQLite, measured in the same run."""

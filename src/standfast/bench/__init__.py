"""`standfast bench`: the product beside raw SQLite, or beside other queues on PostgreSQL, measured in the same run."""

"""`standfast bench`: standfast compared with raw SQLite, or with other queues on PostgreSQL, in the same run."""

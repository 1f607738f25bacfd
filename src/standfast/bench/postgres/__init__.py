"""`standfast bench --url postgresql://…`: standfast and other queues on the same server, in the same run."""

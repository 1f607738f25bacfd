"""`standfast bench --url postgresql://…`: the product beside other queues on the same server, in the same run."""

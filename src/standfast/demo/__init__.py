"""`standfast demo`: a flaky receiver, a worker that is killed, and books that must balance."""

"""Programs that measure other queues. They are run by the Python of the peers' environment, and never imported."""

"""Jobs that were first stored elsewhere and are brought into the store: the spool and the outbox."""

"""Jobs on their way in from elsewhere: the spool and the outbox."""

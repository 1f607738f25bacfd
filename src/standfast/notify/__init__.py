"""Telling the outside: follows what was committed, and has the queue itself carry alerts to surfaces."""

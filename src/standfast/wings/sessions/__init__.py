"""Sessions of agents and their inboxes."""

"""A shop on Django: an order and its mail are committed together, and a worker sends the mail."""

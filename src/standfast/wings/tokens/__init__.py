"""Bearer tokens, browser sessions, and who may do what."""

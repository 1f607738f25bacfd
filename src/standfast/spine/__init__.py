"""The whole life of a plain job: accept, claim, run, settle, apply, close, tell."""

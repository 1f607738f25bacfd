"""The whole life of a plain job: accept, intake, claim, run, settle, apply, rounds (which ends each round), tell."""

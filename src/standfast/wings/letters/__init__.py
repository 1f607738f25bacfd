"""Dead letters: jobs that stopped and wait for a decision."""

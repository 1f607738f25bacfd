"""Effects: what a handler changes in the world, the ledger of these changes, and checks whether they happened."""

"""Effects: what a handler changes in the world, the ledger of it, and looking whether it landed."""

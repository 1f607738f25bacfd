"""How far running jobs say they are."""

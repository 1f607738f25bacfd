"""`standfast scan`: finds the places in a code base where work can be lost without a trace."""

"""Jobs as the store has them, whole: read, listed and shown, for every wing that needs to look at one."""

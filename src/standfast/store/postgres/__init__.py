"""The store on PostgreSQL: one database for producers and workers on many hosts."""

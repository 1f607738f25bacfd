"""The door for agents: an MCP server over one Standfast. It translates; what may be done is decided below."""

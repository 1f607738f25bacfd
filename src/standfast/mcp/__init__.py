"""The interface for agents: an MCP server over one Standfast. It only translates; the layers below decide."""

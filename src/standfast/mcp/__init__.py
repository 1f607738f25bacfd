"""The door for agents: an MCP server over one Standfast. It translates; what may be done is decided below."""

from standfast.mcp.door import door
from standfast.mcp.identity import Identity, identity

__all__ = ["Identity", "door", "identity"]

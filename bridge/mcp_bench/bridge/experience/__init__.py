"""Recordings as tools of an MCP server, for agents that learn from them."""

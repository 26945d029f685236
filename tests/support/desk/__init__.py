"""A small MCP server, and scripts of agents that work with it."""

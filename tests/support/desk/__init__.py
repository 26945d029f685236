"""A small MCP server, and scripts for agents that use it."""

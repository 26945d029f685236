"""`mcp-bench install`: our server as an entry in an agent's own configuration, for work by hand."""

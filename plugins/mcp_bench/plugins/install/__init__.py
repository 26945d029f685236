"""`mcp-bench install`: add our server to an agent's own configuration, for interactive use."""

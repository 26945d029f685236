"""The MCP server over any world: the SDK's server, and a faster path for tool calls."""

"""Recording proxies in front of any MCP server, on stdio and over HTTP."""

"""Recording proxies for any MCP server, on stdio and over HTTP."""

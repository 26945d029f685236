"""Our own MCP clients. Each runs as its own process and imports no other part of this project."""

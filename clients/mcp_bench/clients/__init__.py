"""Our own MCP clients, each a process of its own. They import nothing else of this project."""

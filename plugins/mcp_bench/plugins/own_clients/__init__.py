"""Our own MCP clients: oracle, chat and simple baselines."""

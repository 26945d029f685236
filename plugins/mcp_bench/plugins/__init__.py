"""Agent plugins: one folder for each agent that mcp-bench can launch."""

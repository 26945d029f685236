"""`mcp-bench doctor`: check the installation and suggest fixes."""

"""`mcp-bench doctor`: what is here, what is missing, and what to do about each."""

"""`mcp-bench check-benchmark`: whether a benchmark can be trusted, for its author."""

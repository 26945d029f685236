"""The `mcp-bench` command line: the root group, and the bridge's own commands."""

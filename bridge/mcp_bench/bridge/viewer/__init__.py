"""The local web app over a home's recordings: `mcp-bench view`."""

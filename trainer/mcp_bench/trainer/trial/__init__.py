"""What methods share that try a model: mcp-bench's own commands as steps, tasks, recordings and scores."""

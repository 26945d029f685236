"""Training side of mcp-bench: data loading, fine-tuning, serving and the loop over turns."""

"""Start, watch and end the agent's processes."""

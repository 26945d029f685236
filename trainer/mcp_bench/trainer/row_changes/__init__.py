"""Changes of training rows that a recipe asks for: other lists of tools, other names."""

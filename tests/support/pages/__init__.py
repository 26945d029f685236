"""Pages and terminals as a reader sees them."""

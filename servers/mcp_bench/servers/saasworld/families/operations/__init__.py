"""Task families: operations."""

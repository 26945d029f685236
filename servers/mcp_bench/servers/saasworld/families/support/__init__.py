"""Task families: support."""

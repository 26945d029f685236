"""Task families: hr."""

"""Task families: sales."""

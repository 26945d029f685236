"""Task families: marketing."""

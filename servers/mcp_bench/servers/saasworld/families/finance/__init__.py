"""Task families: finance."""

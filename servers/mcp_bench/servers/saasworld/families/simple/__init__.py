"""Task families: simple."""

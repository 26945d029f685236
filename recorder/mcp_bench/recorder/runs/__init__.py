"""Runs as folders: write, read, find, combine and group them."""

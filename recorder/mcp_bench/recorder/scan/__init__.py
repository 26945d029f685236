"""Looks for signs that an agent searched for its grade."""

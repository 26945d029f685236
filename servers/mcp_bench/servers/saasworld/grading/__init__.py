"""Assertions on the final state, made from what the reference solution changes."""

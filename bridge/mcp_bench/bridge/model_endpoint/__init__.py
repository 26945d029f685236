"""Asks a model endpoint whether it works, before an agent depends on it."""

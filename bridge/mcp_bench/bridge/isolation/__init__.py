"""Isolation of the agent from the referee's files and processes: one module per level."""

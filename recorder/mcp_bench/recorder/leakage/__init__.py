"""Leakage: detection of held-out tasks in a data set."""

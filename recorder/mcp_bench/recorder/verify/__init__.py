"""Checks that a recording is what was recorded."""

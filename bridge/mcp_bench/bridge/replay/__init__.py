"""Replay recorded calls on fresh worlds, to check grades and to label steps."""

"""Devin CLI."""

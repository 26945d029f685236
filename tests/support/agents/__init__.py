"""Agents as processes: real ones, and stand-ins for those that cannot be installed."""

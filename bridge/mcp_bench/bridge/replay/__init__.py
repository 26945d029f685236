"""Recorded calls played again on fresh worlds: grades checked, steps labelled."""

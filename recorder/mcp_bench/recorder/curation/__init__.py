"""Curation: rules that choose which recordings become training data, and what is left of their text."""

"""Curation: rules that select recordings as training data and clean their text."""

"""Curated episodes written as rows of training data."""

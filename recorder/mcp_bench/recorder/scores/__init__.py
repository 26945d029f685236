"""Totals, rates with intervals, and comparisons."""

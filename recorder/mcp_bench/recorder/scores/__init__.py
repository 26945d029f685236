"""Scores of recorded episodes: totals, means with confidence intervals, comparisons."""

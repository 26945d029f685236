"""Export of curated episodes as rows of training data."""

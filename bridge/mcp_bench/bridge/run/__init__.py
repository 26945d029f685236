"""A run of many episodes: set-up, schedule, retries, limits, display."""

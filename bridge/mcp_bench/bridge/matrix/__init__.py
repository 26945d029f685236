"""A matrix: a file with agents, models and tasks, whose combinations are recorded as ordinary runs."""

"""Find, combine and group runs."""

"""Games and puzzles: our own small ones, and adapters to packages that are installed separately."""

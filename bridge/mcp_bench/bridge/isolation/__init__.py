"""How an agent is kept apart from the referee's files and processes: one file per level."""

"""Where the episodes of a run are recorded: in this process, or in several referee processes."""

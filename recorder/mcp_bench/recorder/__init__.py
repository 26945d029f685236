"""What was recorded: the store, trajectories, statistics, reports and export formats."""

"""Interactive use: an agent's own configuration names a benchmark, and a person has it work on tasks."""

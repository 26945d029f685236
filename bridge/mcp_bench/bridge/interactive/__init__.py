"""Interactive use: an agent with its own configuration works on benchmark tasks when a person asks it to."""

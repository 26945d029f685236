"""One file per agent: how it is configured, launched, and read."""

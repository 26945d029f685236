"""Tasks and agents for tests of improvement."""

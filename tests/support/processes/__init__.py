"""Processes of the tests: forks in place of interpreters, and commands that are interrupted."""

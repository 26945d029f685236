"""The task families, one file each, in a folder per business function.

The docstring of a file says what its tasks ask for, and which traps they hold. A number in brackets is the
first level that has the traps before it. A mail that gives orders is an injection: its sender is a stranger.
"""

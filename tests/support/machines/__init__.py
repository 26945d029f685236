"""Machines that tests stand in for or set up: other programs, clusters, sandboxes, installations."""

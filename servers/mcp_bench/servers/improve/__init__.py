"""Improvement tasks: an agent edits a target, the experiment is out of its reach, held-out data decide."""

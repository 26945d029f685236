"""Generations: record, let an agent propose a change, measure it on held-out tasks, keep or drop it."""

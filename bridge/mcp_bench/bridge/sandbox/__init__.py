"""Sandboxes for worlds: where the commands of agents run, without any right of the referee's."""

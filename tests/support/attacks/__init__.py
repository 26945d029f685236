"""Attacks on the isolation of agents, one small program each."""

"""Conversations of episodes: the agent's transcript aligned with the recorded calls."""

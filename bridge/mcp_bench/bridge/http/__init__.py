"""Streamable HTTP: what passes is recorded as it streams, in front of our own server or any other."""

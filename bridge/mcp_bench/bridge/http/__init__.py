"""Streamable HTTP: a listener, a reverse proxy, and middleware that records messages as they stream."""

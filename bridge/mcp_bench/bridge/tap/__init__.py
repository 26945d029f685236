"""The tap records the bytes that pass between an agent and its server."""

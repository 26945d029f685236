"""Benchmarks and the MCP server that exposes them. Imports nothing else of this project."""

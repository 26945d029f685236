"""The reference server of MCP's conformance suite."""

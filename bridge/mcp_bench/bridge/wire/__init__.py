"""The connection between an agent and its server: socket, shim, admission and backend."""

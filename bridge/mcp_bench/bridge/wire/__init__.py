"""What connects an agent to a world: socket, shim, admission, backend."""

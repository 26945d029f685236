"""Between an agent and a world: shim, tap, supervisor, referee, and the command line."""

"""The machinery of the simulated apps: fields, resources, operations, state."""

"""Parse captured requests to model APIs and their answers."""

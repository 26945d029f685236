"""What a model consists of: read from its configuration, and counted without its weights."""

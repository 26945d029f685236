"""The loop: record, curate, train, serve, measure and decide, repeatedly."""

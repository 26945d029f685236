"""Record, curate, train, serve, measure, gate; and again."""

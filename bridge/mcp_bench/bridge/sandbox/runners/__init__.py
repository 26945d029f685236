"""On which machine the sandboxes of an episode run: this one, or one that the operator lends."""

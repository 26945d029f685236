"""A harness: what an agent gets besides its model and the world. A versioned folder of texts."""

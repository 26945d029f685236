"""A run's folder: the databases, the journal in front of them, keys and signatures."""

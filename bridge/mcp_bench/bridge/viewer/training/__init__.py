"""What training left on disk, read by its documented files: loops, training runs, and data sets."""

"""Copies of runs in shared storage: any place that fsspec has a file system for."""

"""The task families, one file each, in a folder per business function."""

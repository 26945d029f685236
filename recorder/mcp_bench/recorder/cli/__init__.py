"""The recorder's commands, one file each. They import what is heavy when they run."""

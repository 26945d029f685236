"""The recorder's commands, one file each. They import heavy modules only when they run."""

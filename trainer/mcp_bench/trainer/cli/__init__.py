"""The trainer's commands. They import click and the standard library at the top, the rest when they run."""

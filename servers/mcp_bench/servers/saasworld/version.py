"""The version of the worlds and their grader."""

from typing import Final

VERSION: Final = "2"
"""Must change with every change to a task: to a family, an app or a word list."""

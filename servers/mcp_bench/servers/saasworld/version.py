"""The version of the worlds and their grader."""

from typing import Final

VERSION: Final = "1"
"""Whatever changes a task changes this: a family, an app, a word list."""

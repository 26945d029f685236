"""The version of the worlds and their grader, and that of the random draws."""

from typing import Final

VERSION: Final = "3"
"""Must change with every change to a task: to a family, an app or a word list."""
DRAWS: Final = "2"
"""The version whose random draws tasks still have. Raising it makes all tasks new."""

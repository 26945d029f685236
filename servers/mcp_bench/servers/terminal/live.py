"""Whether what is shown on stderr can be replaced."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def is_live(console: Console) -> bool:
    """Return whether stderr is a terminal that shows a status which changes.

    Args:
        console: one of stderr.
    """
    # rich treats FORCE_COLOR as a terminal, but a log file must not contain cursor movements
    return sys.stderr.isatty() and console.is_terminal and not console.is_dumb_terminal

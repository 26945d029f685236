"""Show the progress of a run: on a terminal, in a notebook, or as lines."""

from __future__ import annotations

import sys
from typing import Any, Protocol

EPISODE_LINE = "["
"""What lines about episodes and the status begin with: `[3/10] ...`."""


class Progress(Protocol):
    def line(self, text: str) -> None:
        """Show a line that stays."""
        ...

    def status(self, text: str) -> None:
        """Show the state of the run. Each one replaces the one before."""
        ...


class Silent:
    """Shows nothing."""

    def line(self, text: str) -> None: ...

    def status(self, text: str) -> None: ...


class Lines:
    """Prints lines on stderr, as the command does without a terminal."""

    def line(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def status(self, text: str) -> None: ...


class Notebook:
    """One output of a notebook's cell that updates: the remarks, the last finished episode, the status."""

    def __init__(self, display: Any) -> None:
        self._remarks: list[str] = []
        self._episode: list[str] = []
        self._status: list[str] = []
        self._handle = display(self._content(), raw=True, display_id=True)

    def line(self, text: str) -> None:
        if text.startswith(EPISODE_LINE):
            self._episode = [text]
        else:
            self._remarks.append(text)
        self._update()

    def status(self, text: str) -> None:
        self._status = [text]
        self._update()

    def _update(self) -> None:
        self._handle.update(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        return {"text/plain": "\n".join([*self._remarks, *self._episode, *self._status])}


def terminal() -> int | None:
    """Return the descriptor of stderr if it is a terminal."""
    try:
        return sys.stderr.fileno() if sys.stderr.isatty() else None
    except (AttributeError, OSError, ValueError):  # replaced or closed
        return None


def shown() -> Progress:
    """Return what fits the place that this process runs in, other than a terminal."""
    ipython = sys.modules.get("IPython")
    if ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None:
        from IPython.display import display

        return Notebook(display)
    return Lines()

"""A line on the terminal, as long as something is being looked at."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape


class Progress:
    """Says on stderr who has not answered yet; nothing where that is no terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._status = console.status("looking") if console.is_terminal else None

    def show(self, waiting: list[str]) -> None:
        if self._status is not None:
            self._status.update(f"looking at {escape(', '.join(waiting))}")

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

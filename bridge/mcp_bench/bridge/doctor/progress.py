"""A status line on the terminal while checks run."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape

from mcp_bench.servers.terminal.live import is_live


class Progress:
    """Shows the running checks on stderr, if it is a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._status = console.status("checking") if is_live(console) else None

    def show(self, waiting: list[str]) -> None:
        if self._status is not None:
            self._status.update(f"checking {escape(', '.join(waiting))}")

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

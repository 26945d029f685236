"""Make logs and tracebacks safe to show. Separate from `sanitize`, since its imports are slow."""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType

from mcp_bench.servers.terminal.sanitize import sanitize


class SanitizedFormatter(logging.Formatter):
    """A formatter for logs on a terminal; it also sanitizes tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        return sanitize(super().format(record))


def show_safely() -> None:
    """Sanitize what Python itself prints: logs without a handler and uncaught errors."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SanitizedFormatter())
    sys.excepthook = _print_exception


def _print_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(sanitize("".join(traceback.format_exception(kind, error, trace))))

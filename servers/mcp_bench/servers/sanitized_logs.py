"""Logs and tracebacks, made safe to show. Apart from `sanitize`, as what it imports takes long to start."""

from __future__ import annotations

import logging
import sys
import traceback
from types import TracebackType

from mcp_bench.servers.sanitize import sanitize


class SanitizedFormatter(logging.Formatter):
    """A formatter for logs that people see on a terminal, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        return sanitize(super().format(record))


def show_safely() -> None:
    """Have everything that Python itself prints, logs that nobody handles and errors that nobody catches,
    made safe."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SanitizedFormatter())
    sys.excepthook = _print_exception


def _print_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(sanitize("".join(traceback.format_exception(kind, error, trace))))

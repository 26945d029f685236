"""Let SIGTERM end a command as Ctrl-C does, so that what it started and made is removed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """Raise SystemExit at SIGTERM. In another thread than the main one, no handler can be set."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

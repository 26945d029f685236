"""What fetching reports while it works."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[str, int, int], None]
"""Called with what is being done (`download`, `convert`, `wait`), bytes done, and all bytes."""

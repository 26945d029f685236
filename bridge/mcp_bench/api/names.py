"""One name, or several, as a parameter."""

from collections.abc import Sequence

Names = str | Sequence[str]


def several(names: Names) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)

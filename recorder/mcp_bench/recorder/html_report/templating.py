"""Templates of pages with texts from agents: every value is escaped, hidden characters are written out."""

from __future__ import annotations

from collections.abc import Callable

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def make_environment(package: str, clean: Callable[[str], str]) -> Environment:
    """Return the environment of the templates in a package's folder `templates`.

    Args:
        package: the package.
        clean: writes out characters that hide or reorder text, in everything except our own markup.
    """
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
    )

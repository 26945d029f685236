"""Parts that are installed separately, and how: for messages about what is missing."""

from __future__ import annotations

from functools import cache

NAME = "mcp-bench-kit"
TRAINER = "mcp-bench-trainer"
"""A distribution of its own, so that recording never installs PyTorch."""
TRAINER_COMMANDS = ("train", "export-model", "serve-model", "loop", "ablate", "improve")
"""The commands that it adds. A test compares them with its entry points."""


def install_extra(name: str) -> str:
    """Return the command that installs an extra of mcp-bench, from where mcp-bench was installed."""
    source, editable = _installed_from()
    return _command(f"{source or NAME}[{name}]", editable)


def install_trainer() -> str:
    """Return the command that installs the trainer, which brings PyTorch."""
    from pathlib import Path

    source, editable = _installed_from()
    if not (source and Path(source, "trainer").is_dir()):
        return "pip install ./trainer, in a checkout of mcp-bench. It installs PyTorch"
    return f"{_command(f'{source}/trainer', editable)}. It installs PyTorch"


def _command(what: str, editable: bool) -> str:
    import shlex

    return f"pip install {'--editable ' if editable else ''}{shlex.quote(what)}"


@cache
def _installed_from() -> tuple[str, bool]:
    """Return the checkout or wheel that mcp-bench was installed from, if it is there; and if it is editable.

    pip notes it: https://packaging.python.org/en/latest/specifications/direct-url
    """
    import json
    from importlib.metadata import distribution
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    noted = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    url = urlsplit(noted.get("url", ""))
    if url.scheme != "file" or not Path(unquote(url.path)).exists():
        return "", False
    return unquote(url.path), bool(noted.get("dir_info", {}).get("editable"))

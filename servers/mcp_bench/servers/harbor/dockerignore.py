"""What a `.dockerignore` file keeps out of the files that a Dockerfile can copy.

Format: https://docs.docker.com/build/concepts/context/#dockerignore-files
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from posixpath import normpath

FILE = ".dockerignore"
PARTS = re.compile(r"\*\*/|\*\*|\*|\?|\[\^?[^\]]+\]|\\.|.")


def ignored_in(context: Path) -> Callable[[str], bool]:
    """Return what says whether a path below the context is left out. The last pattern that fits decides."""
    try:
        lines = (context / FILE).read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError:
        lines = []
    rules: list[tuple[re.Pattern[str], bool]] = []
    for line in lines:
        pattern = line.strip()
        kept = pattern.startswith("!")
        pattern = normpath(pattern.removeprefix("!").strip()).lstrip("/")
        if not line.startswith("#") and pattern not in ("", "."):
            rules.append((re.compile(f"(?:{_expression(pattern)})(?:/.*)?"), not kept))

    def ignored(path: str) -> bool:
        found = False
        for pattern, leaves_out in rules:
            if pattern.fullmatch(path):
                found = leaves_out
        return found

    return ignored


def _expression(pattern: str) -> str:
    found = []
    for part in PARTS.findall(pattern):
        if part == "**/":
            found.append("(?:.*/)?")
        elif part == "**":
            found.append(".*")
        elif part == "*":
            found.append("[^/]*")
        elif part == "?":
            found.append("[^/]")
        elif part[0] == "[":
            found.append(part)
        else:
            found.append(re.escape(part[-1]))
    return "".join(found)

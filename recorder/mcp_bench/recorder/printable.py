"""Text from agents and tools, made safe to show: it may try to drive the operator's terminal."""

from __future__ import annotations

import re

# controls but tab and line feed, then what reorders or hides text: bidi marks, zero width, BOM
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"
    r"\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""Return `text` with control characters written out (`\x1b`), so that none is obeyed."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)

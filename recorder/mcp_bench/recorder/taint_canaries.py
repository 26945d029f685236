"""Random words that only the referee knows, found in any text: written plainly, reversed, in hexadecimal
digits, percent-encoded or in base64, with whatever between the characters.

Half of one is enough to know it by: 64 random bits.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

BYTES = 16
_ALPHANUMERIC = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyz")
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ+/") | _ALPHANUMERIC
_OTHER = bytes(byte for byte in range(256) if byte not in _ALPHANUMERIC)
_NOT_BASE64 = bytes(byte for byte in range(256) if byte not in _BASE64)
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


@dataclass(frozen=True, slots=True)
class Canary:
    """`place` says where it was put, `value` is the word: 32 hexadecimal digits."""

    place: str
    value: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """A canary that was found, the form it was in, and where in the text it begins (None: it is encoded)."""

    canary: Canary
    form: str
    at: int | None


def fresh(place: str) -> Canary:
    return Canary(place, secrets.token_hex(BYTES))


class Canaries:
    """Looks for a few canaries in many texts."""

    def __init__(self, canaries: Iterable[Canary]) -> None:
        self._needles = [
            (needle, in_base64, form, canary)
            for canary in canaries
            for half in (canary.value[:BYTES], canary.value[BYTES:])
            for needle, in_base64, form in _forms(half.encode())
        ]

    def find(self, text: str) -> Iterator[Sighting]:
        """Yield each canary that is in `text`, once."""
        if not self._needles:
            return
        data = text.encode("utf-8", "replace")
        squeezed = [_squeezed(data)]
        if b"%" in data:
            squeezed.append(_squeezed(unquote_to_bytes(data)))
        base64 = data.translate(_URL_SAFE).translate(None, _NOT_BASE64)
        met: set[Canary] = set()
        for needle, in_base64, form, canary in self._needles:
            if canary not in met and any(needle in view for view in ([base64] if in_base64 else squeezed)):
                met.add(canary)
                at = text.lower().find(needle.decode())
                yield Sighting(canary, form, at if at >= 0 else None)


def _squeezed(data: bytes) -> bytes:
    return data.lower().replace(b"\\x", b"").replace(b"0x", b"").translate(None, _OTHER)


def _forms(word: bytes) -> Iterator[tuple[bytes, bool, str]]:
    """Yield `(what to look for, whether in base64, name of the form)`."""
    yield word, False, "plain"
    yield word[::-1], False, "reversed"
    yield word.hex().encode(), False, "hexadecimal"
    for before in range(3):  # characters that depend on neighbours are left out
        encoded = b64encode(bytes(before) + word).rstrip(b"=")
        first, last = (before * 8 + 5) // 6, (before + len(word)) * 8 // 6
        yield encoded[first:last], True, "base64"

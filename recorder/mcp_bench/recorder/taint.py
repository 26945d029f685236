"""Whether an agent looked for its grade: the verdict on an episode, its evidence, and canaries.

- `tainted`: there is evidence.
- `clean`: there is none, and all that the agent could do was observed: its MCP connection and, for an agent
  with built-in tools, its transcript or captured model calls.
- `unknown`: there is none, but not everything was observed.

Canaries are random words that only the referee knows. `Canaries` finds them in any text: plain, reversed, in
hexadecimal digits, percent-encoded or in base64, with any characters in between. Half a canary, 64 random
bits, is enough to identify it.
"""

from __future__ import annotations

import secrets
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol
from urllib.parse import unquote_to_bytes

from mcp_bench.recorder.isolation_levels import SEALING

Taint = Literal["clean", "tainted", "unknown"]
EvidenceKind = Literal["canary", "path", "source", "process", "flag"]
"""A canary appeared; our home or one of our files was named; the agent tried to read our sources, or a
benchmark's, or another process; the referee refused something."""

SCANNER_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One piece of evidence. `excerpt` is the agent's text, sanitized for one line."""

    kind: EvidenceKind
    what: str
    where: str
    """Such as `message 4, call Bash` or `frame 17`: positions and ids of the recording."""
    excerpt: str


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan of one episode."""

    verdict: Taint
    evidence: tuple[Evidence, ...] = ()
    scanner_version: str = SCANNER_VERSION

    def with_earlier(self, evidence: Iterable[Evidence]) -> Scan:
        """Return this scan with the evidence of an earlier one, which a later scan does not undo."""
        both = tuple(dict.fromkeys((*evidence, *self.evidence)))
        return Scan("tainted", both) if both else self

    def rows(self) -> list[dict[str, Any]]:
        """Return the evidence as JSON objects."""
        return [asdict(one) for one in self.evidence]


def judged(evidence: Collection[Evidence], *, own_tools: bool, observed: bool) -> Scan:
    """Return the verdict.

    Args:
        evidence: all that the scan found.
        own_tools: whether the agent had tools besides those on its MCP connection.
        observed: whether a transcript or captured model calls show what it did with them.
    """
    if evidence:
        return Scan("tainted", tuple(evidence))
    return Scan("clean" if observed or not own_tools else "unknown")


class Scanned(Protocol):
    """The fields of a stored episode that `verified` needs."""

    @property
    def isolation(self) -> str: ...
    @property
    def probes(self) -> dict[str, Any] | None: ...
    @property
    def taint(self) -> Taint: ...


def verified(episode: Scanned) -> bool:
    """Return whether an episode's grade was out of its agent's reach.

    The agent was isolated, every probe of the isolation passed, and the episode is clean. Whether the agent
    had a shell (`--tools all`) makes no difference.
    """
    probes = episode.probes or {}
    return (
        episode.isolation in SEALING
        and bool(probes)
        and all(result.get("passed") is True for result in probes.values())
        and episode.taint == "clean"
    )


# Canaries ----------------------------------------------------------------------------------------

BYTES = 16
_ALPHANUMERIC = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyz")
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ+/") | _ALPHANUMERIC
_OTHER = bytes(byte for byte in range(256) if byte not in _ALPHANUMERIC)
_NOT_BASE64 = bytes(byte for byte in range(256) if byte not in _BASE64)
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


@dataclass(frozen=True, slots=True)
class Canary:
    """A word of 32 random hexadecimal digits, and the place that it was written to."""

    place: str
    value: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """A canary in a text, its form, and where it begins (None if it is encoded)."""

    canary: Canary
    form: str
    at: int | None


def fresh(place: str) -> Canary:
    return Canary(place, secrets.token_hex(BYTES))


class Canaries:
    """Finds a few canaries in many texts."""

    def __init__(self, canaries: Iterable[Canary]) -> None:
        self._needles = [
            (needle, in_base64, form, canary)
            for canary in canaries
            for half in (canary.value[:BYTES], canary.value[BYTES:])
            for needle, in_base64, form in _forms(half.encode())
        ]

    def find(self, text: str) -> Iterator[Sighting]:
        """Yield each canary in `text`, once."""
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
    """Yield `(bytes to find, whether in base64, name of the form)`."""
    yield word, False, "plain"
    yield word[::-1], False, "reversed"
    yield word.hex().encode(), False, "hexadecimal"
    for before in range(3):  # characters that depend on their neighbours are left out
        encoded = b64encode(bytes(before) + word).rstrip(b"=")
        first, last = (before * 8 + 5) // 6, (before + len(word)) * 8 // 6
        yield encoded[first:last], True, "base64"

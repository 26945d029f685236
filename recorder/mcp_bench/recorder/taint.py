"""Whether an agent looked for its grade: the verdict on an episode, and what it rests on.

`tainted`: there is evidence. `clean`: there is none, and all that the agent could do was seen: its wire, and,
where it has tools of its own, what its transcript or its captured model calls tell of them. `unknown`: there
is none, and not all was seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from mcp_bench.recorder.isolation_levels import SEALING

Taint = Literal["clean", "tainted", "unknown"]
EvidenceKind = Literal["canary", "path", "source", "process", "flag"]
"""A canary was seen; our home or a file of ours was named; our sources, or a benchmark's, were to be read;
another process was to be read; the referee refused something."""

SCANNER_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that gives an agent away. What it wrote is in `excerpt`, made safe to show in a line."""

    kind: EvidenceKind
    what: str
    where: str
    """Such as `message 4, call Bash` or `frame 17`: positions and ids of the recording."""
    excerpt: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scan of one episode came to."""

    verdict: Taint
    evidence: tuple[Evidence, ...] = ()
    scanner_version: str = SCANNER_VERSION

    def with_earlier(self, evidence: Iterable[Evidence]) -> Scan:
        """Return it with what an earlier scan has found, which is not undone by a later one."""
        both = tuple(dict.fromkeys((*evidence, *self.evidence)))
        return Scan("tainted", both) if both else self

    def rows(self) -> list[dict[str, Any]]:
        """Return the evidence as JSON objects."""
        return [asdict(one) for one in self.evidence]


def judged(evidence: Collection[Evidence], *, own_tools: bool, told: bool) -> Scan:
    """Return the verdict.

    Args:
        own_tools: whether the agent had tools that do not come over the wire.
        told: whether something tells what it did with them.
    """
    if evidence:
        return Scan("tainted", tuple(evidence))
    return Scan("clean" if told or not own_tools else "unknown")


class Scanned(Protocol):
    """What a stored episode tells about its seal."""

    @property
    def isolation(self) -> str: ...
    @property
    def probes(self) -> dict[str, Any] | None: ...
    @property
    def taint(self) -> Taint: ...


def verified(episode: Scanned) -> bool:
    """Whether an episode's grade was out of its agent's reach: it was isolated, every probe of that passed,
    and it is clean. Whether it had a shell (`--tools all`) makes no difference."""
    probes = episode.probes or {}
    return (
        episode.isolation in SEALING
        and bool(probes)
        and all(result.get("passed") is True for result in probes.values())
        and episode.taint == "clean"
    )

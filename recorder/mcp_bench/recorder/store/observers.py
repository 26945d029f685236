"""Who else wants to know of calls and episodes while they are recorded, such as telemetry.

Observers are entry points of the group `mcp_bench.observers`: functions without arguments that
return an Observer, or None where they are not wanted. They never learn of grades.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal, Protocol

from mcp_bench.recorder.frames.body import Body
from mcp_bench.recorder.frames.jsonrpc import Frame
from mcp_bench.recorder.records import EpisodeEnd, EpisodeStart, Outcome, RunInfo
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.registry import load, registered

Transport = Literal["pipe", "tcp"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CallStart:
    """A `tools/call` request; `number` is its row in `calls`, times are microseconds since the epoch."""

    number: int
    episode: str
    connection: int
    rpc_id: str
    """As JSON text."""
    tool: str | None
    arguments: str
    """As JSON text."""
    started_us: int
    request: Body
    """The frame that it came in, which may be a batch."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a call was settled; without a response where the connection ended first."""

    number: int
    rpc_id: str
    outcome: Outcome
    ended_us: int
    response: Body | None


class Observer(Protocol):
    """Is told what is recorded, as it is queued, and must return at once. What it raises is logged,
    and changes nothing. `connection` tells the wires of one episode apart, or, where the episode is
    None, those between the episodes of a run."""

    def episode_begun(self, run: RunInfo, start: EpisodeStart) -> None: ...

    def episode_ended(self, episode: str, end: EpisodeEnd) -> None: ...

    def connected(
        self, episode: str | None, connection: int, transport: Transport, session: str | None
    ) -> None:
        """A connection of this transport (`pipe` if nothing is told), with its `Mcp-Session-Id`."""
        ...

    def frame_added(self, episode: str | None, connection: int, frame: Frame, body: Body) -> None: ...

    def call_opened(self, call: CallStart) -> None: ...

    def call_settled(self, call: CallEnd) -> None: ...

    def close(self) -> None:
        """Nothing more will come. This may take a few seconds."""
        ...


class Observers:
    """All observers of one recording; falsy when there are none, which costs nothing."""

    def __init__(self) -> None:
        self._all: list[Observer] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add_registered(self) -> None:
        """Add those that are installed and want to be told."""
        for name in registered("observer"):
            try:
                observer: Observer | None = load("observer", name)()
            except BenchError as error:  # recording goes on without it
                _log.warning("%s", error)
                continue
            if observer is not None:
                self._all.append(observer)

    def notify(self, event: str, *facts: object) -> None:
        """Call the method `event` of each."""
        for observer in self._all:
            try:
                getattr(observer, event)(*facts)
            except Exception:
                _log.exception("an observer failed")

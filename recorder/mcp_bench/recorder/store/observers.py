"""Observers of calls and episodes while they are recorded, such as telemetry.

Observers are entry points of the group `mcp_bench.observers`: functions without arguments that return an
Observer, or None to disable it. Observers never see grades.
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
    """Its frame, which can be a batch."""


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The outcome of a call. `response` is None if the connection ended first."""

    number: int
    rpc_id: str
    outcome: Outcome
    ended_us: int
    response: Body | None


class Observer(Protocol):
    """Called for each event as it is queued; must return at once.

    Exceptions are logged and otherwise ignored. `connection` distinguishes the connections of one episode or,
    if the episode is None, those between the episodes of a run.
    """

    def episode_begun(self, run: RunInfo, start: EpisodeStart) -> None: ...

    def episode_ended(self, episode: str, end: EpisodeEnd) -> None: ...

    def connected(
        self, episode: str | None, connection: int, transport: Transport, session: str | None
    ) -> None:
        """A new connection with its `Mcp-Session-Id`. Without this call, the transport is `pipe`."""
        ...

    def frame_added(self, episode: str | None, connection: int, frame: Frame, body: Body) -> None: ...

    def call_opened(self, call: CallStart) -> None: ...

    def call_settled(self, call: CallEnd) -> None: ...

    def close(self) -> None:
        """Handle the end of the recording. This may take a few seconds."""
        ...


class Observers:
    """All observers of one recording. Falsy when there are none, so that callers can skip the work."""

    def __init__(self) -> None:
        self._all: list[Observer] = []

    def __bool__(self) -> bool:
        return bool(self._all)

    def add_registered(self) -> None:
        """Add the installed observers that are enabled."""
        for name in registered("observer"):
            try:
                observer: Observer | None = load("observer", name)()
            except BenchError as error:  # recording continues without it
                _log.warning("%s", error)
                continue
            except Exception as error:  # its own code, which its settings can break
                _log.warning("the observer %s cannot be started: %s: %s", name, type(error).__name__, error)
                continue
            if observer is not None:
                self._all.append(observer)

    def notify(self, event: str, *facts: object) -> None:
        """Call the method `event` of each observer."""
        for observer in self._all:
            try:
                getattr(observer, event)(*facts)
            except Exception:
                _log.exception("an observer failed")

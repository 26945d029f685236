"""What the harness tells the recorder: runs, planned episodes, how an episode began and ended.

Times are integer microseconds since the epoch, UTC.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, JsonValue

from mcp_bench.recorder.trajectory import Model, ToolSchema, Usage

Termination = Literal["agent_exit", "timeout", "max_calls", "crash", "cancelled"]
Direction = Literal["client", "server"]
"""Who sent a frame."""
Outcome = Literal["ok", "tool_error", "rpc_error", "transport_error", "cancelled"]

FlagKind = Literal[
    "wrong_token", "foreign_peer", "late_reconnect", "replay", "forged_control", "other_session",
    "foreign_origin", "flood",
]  # fmt: skip
"""What was tried, and refused: to get in without the token or with a wrong one (`wrong_token`), with the
right one from a process that the agent did not start (`foreign_peer`), once more behind the first tool call
(`late_reconnect`), or with the token of an episode that is over (`replay`); to tell the referee what to do
(`forged_control`); over HTTP, to use a session of somebody else (`other_session`), or by way of a web page
(`foreign_origin`); to use the referee up (`flood`)."""

REFEREE_DIED = "referee_died"
"""Reason code of an episode whose referee was gone before its grade was stored."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u
_RANDOM_BITS = 30
_last_id = 0
_id_lock = threading.Lock()


def now_us() -> int:
    """Return the time in microseconds since the epoch."""
    return time.time_ns() // 1000


def new_id(prefix: str) -> str:
    """Return `prefix_` and 15 characters that sort by the time they were made (milliseconds).

    Ids made by one process are strictly increasing; between processes 30 random bits tell two ids
    of the same millisecond apart.
    """
    global _last_id
    with _id_lock:
        fresh = (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        _last_id = max(fresh, _last_id + 1)
        number = _last_id
    digits = [_ALPHABET[number >> shift & 31] for shift in range(70, -1, -5)]
    return f"{prefix}_{''.join(digits)}"


class PlannedEpisode(Model):
    """One slot of a run: `(task, seed, repeat)` is unique in it. `timeout` is in seconds."""

    task: str
    split: str
    domain: str
    prompt: str
    seed: int = 0
    repeat: int = 0
    max_calls: int | None = None
    timeout: float | None = None


class RunInfo(Model):
    """One invocation of `mcp-bench record`. `settings` is whatever else the harness was told: never
    environments, keys or tokens."""

    id: str
    created_us: int
    benchmark: str
    benchmark_version: str
    agent: str
    agent_version: str
    model: str | None = None
    isolation: str
    home: str
    tools: str
    graded: bool = True
    """False where there is no grader: an episode is done when it has ended validly."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    plan: list[PlannedEpisode] = Field(default_factory=list)


class EpisodeStart(Model):
    """An attempt that begins; `attempt` counts from 1 within its slot."""

    id: str
    task: str
    split: str
    domain: str
    prompt: str
    seed: int = 0
    repeat: int = 0
    attempt: int = 1
    started_us: int
    agent: str | None = None
    """As the client told it, where the run's agent is not known beforehand."""
    agent_version: str | None = None
    """Of the agent that was started: a run that is resumed may find another one than it began with."""
    isolation: str | None = None
    """The level that keeps its agent apart."""
    probes: dict[str, JsonValue] = Field(default_factory=dict)
    """What the probes of that level came to, by name: `{"passed": bool, "detail": str}`."""
    tools: list[ToolSchema] = Field(default_factory=list)
    source: dict[str, JsonValue] | None = None
    """Where an imported episode is from: its format, file, place in it, and the digest of its contents."""


class EpisodeEnd(Model):
    """How an attempt ended. `invalid` is a reason code when it says nothing about the agent."""

    termination: Termination | None = None
    invalid: str | None = None
    invalid_detail: str | None = None
    exit_code: int | None = None
    answer: str | None = None
    model: str | None = None
    usage: Usage | None = None
    connections: int = 0
    ended_us: int


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that was tried, and refused. `episode` is the one of the agent that tried; None where nobody
    can say. One alone does not mean that an agent cheats: some reconnect when their server was slow."""

    episode: str | None
    time_us: int
    kind: str
    """A `FlagKind`; of a file that was changed, or comes from a later version, anything."""
    detail: str


class RecordedCall(Model):
    """One `tools/call` as it went over the wire: the truth about what an agent did.

    `text` is the result as the agent received it; `outcome` is None while the call is open and
    `execution` (1, 2, ...) None where the server never ran it.
    """

    tool: str
    arguments: dict[str, JsonValue]
    text: str = ""
    outcome: Outcome | None = None
    execution: int | None = None
    started_us: int
    ended_us: int | None = None

    @property
    def is_error(self) -> bool:
        return self.outcome != "ok"

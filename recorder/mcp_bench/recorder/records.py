"""Records that the referee passes to the recorder: runs, planned episodes, starts and ends of episodes.

Times are integer microseconds since the epoch, UTC.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, JsonValue, field_validator

from mcp_bench.recorder.run_settings import RunSettings
from mcp_bench.recorder.trajectory import Model, ToolSchema, Usage
from mcp_bench.servers.contracts import Image, Limits

Termination = Literal["agent_exit", "timeout", "max_calls", "crash", "cancelled", "world_over"]
"""Why an agent ended. `world_over`: the world said that it is over, and the agent was ended."""
NORMAL_ENDS = frozenset(("agent_exit", "world_over"))
Direction = Literal["client", "server"]
"""Who sent a frame."""
Outcome = Literal["ok", "tool_error", "rpc_error", "transport_error", "cancelled"]

FlagKind = Literal[
    "wrong_token",
    "foreign_peer",
    "late_reconnect",
    "replay",
    "forged_control",
    "other_session",
    "foreign_origin",
    "flood",
    "over_limit",
    "not_ended",
]
"""Attempts that the referee refuses, and what an agent did to the machine.

- `wrong_token`: connect without the token, or with a wrong one.
- `foreign_peer`: connect with the right token from a process that the agent did not start.
- `late_reconnect`: connect again after the first tool call.
- `replay`: connect with the token of an episode that is over.
- `forged_control`: send the referee a command.
- `other_session`: use another client's session over HTTP.
- `foreign_origin`: connect over HTTP from a web page.
- `flood`: exhaust the referee's resources.
- `over_limit`: use more processes, memory or storage than an agent may; it was ended for that.
- `not_ended`: leave processes that could not be ended in time.
"""

REFEREE_DIED = "referee_died"
"""Reason code of an episode whose referee died before its grade was stored."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u
EPISODE_ID = re.compile(rf"ep_[{_ALPHABET}]{{15}}")
_RANDOM_BITS = 30
_last_id = 0
_id_lock = threading.Lock()


def now_us() -> int:
    """Return the time in microseconds since the epoch."""
    return time.time_ns() // 1000


def new_id(prefix: str) -> str:
    """Return `prefix_` and 15 characters that sort by creation time in milliseconds.

    Ids of one process are strictly increasing. Between processes, 30 random bits distinguish ids of the same
    millisecond.
    """
    global _last_id
    with _id_lock:
        fresh = (time.time_ns() // 1_000_000) << _RANDOM_BITS | secrets.randbits(_RANDOM_BITS)
        _last_id = max(fresh, _last_id + 1)
        number = _last_id
    digits = [_ALPHABET[number >> shift & 31] for shift in range(70, -1, -5)]
    return f"{prefix}_{''.join(digits)}"


class PlannedEpisode(Model):
    """One slot of a run, where `(task, seed, repeat)` is unique. `timeout` is in seconds."""

    task: str
    split: str
    domain: str
    prompt: str
    seed: int = 0
    repeat: int = 0
    max_calls: int | None = None
    timeout: float | None = None
    needs: tuple[str, ...] = ()
    limits: Limits = Limits()
    error: str | None = None
    """Why the benchmark did not give the task; there is no prompt then."""
    system: str = ""
    """Instructions besides the prompt."""
    trainable: bool = True
    """False if the benchmark forbids training on the task."""

    @field_validator("limits", mode="before")
    @classmethod
    def _without_submissions(cls, value: Any) -> Any:
        """Leave out a limit that older plans have, and that nothing enforced."""
        if not isinstance(value, dict):
            return value
        return {name: limit for name, limit in value.items() if name != "submissions"}


class RunInfo(Model):
    """One invocation of `mcp-bench record`."""

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
    """False without a grader: an episode is then done when it has ended validly."""
    settings: RunSettings = Field(default_factory=RunSettings)
    """Its other options."""
    plan: list[PlannedEpisode] = Field(default_factory=list)


class EpisodeStart(Model):
    """The start of an attempt; `attempt` counts from 1 within its slot."""

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
    """As the client reports it, if the run's agent is not known beforehand."""
    agent_version: str | None = None
    """Of the agent that was started: a resumed run may find another version than it began with."""
    isolation: str | None = None
    """The isolation level of its agent."""
    probes: dict[str, JsonValue] = Field(default_factory=dict)
    """Results of the probes of that level, by name: `{"passed": bool, "detail": str}`."""
    tools: list[ToolSchema] = Field(default_factory=list)
    system: str = ""
    """Instructions of its task besides the prompt."""
    trainable: bool = True
    """False if the benchmark forbids training on the task."""
    source: dict[str, JsonValue] | None = None
    """The source of an imported episode: format, file, position in the file, and digest of its content."""


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
    """An attempt that was refused. `episode` is that of the agent that made it, or None if unknown.

    One flag does not prove that an agent cheats: some agents reconnect when their server is slow.
    """

    episode: str | None
    time_us: int
    kind: str
    """A `FlagKind`; any text in a file that was changed or comes from a later version."""
    detail: str


class RecordedCall(Model):
    """One `tools/call` from the MCP connection: the authoritative record of what an agent did.

    `text` is the result that the agent received. `outcome` is None while the call is open; `execution`
    (1, 2, ...) is None if the server never ran it.
    """

    tool: str
    arguments: dict[str, JsonValue]
    text: str = ""
    outcome: Outcome | None = None
    execution: int | None = None
    started_us: int
    ended_us: int | None = None
    images: list[Image] = Field(default_factory=list, exclude=True)
    """Images in the result, in order; `text` names each of them."""

    @property
    def is_error(self) -> bool:
        return self.outcome != "ok"

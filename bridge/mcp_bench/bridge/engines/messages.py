"""What a run and its referee processes send each other: a JSON line for each message."""

from __future__ import annotations

from pydantic import BaseModel, TypeAdapter

from mcp_bench.bridge.episode.episode import Outcome
from mcp_bench.recorder.records import PlannedEpisode, RunInfo
from mcp_bench.recorder.taint import Canary


class Work(BaseModel):
    """The first line to a referee process: the run, and where to record it. Orders follow."""

    run: RunInfo
    part: str
    """The folder of its part."""
    apart: bool = False
    """Record each attempt in a folder of its own beside the part, and close it when it ends: it is moved to
    the run's machine then."""
    address: str = ""
    """Of the Ray cluster to record on."""
    needs: list[tuple[str, ...]] = []
    """What the tasks need, each combination once: see `mcp_bench.servers.needs`."""
    base_url: str | None
    """The model endpoint, with its login, which is stored nowhere."""
    canaries: list[Canary]


class Order(BaseModel):
    """Start attempt `number` at an episode, or end the one that was started with this id."""

    id: int
    planned: PlannedEpisode | None = None
    """None: end the attempt, and keep what was recorded."""
    number: int = 1
    claims_count: bool = False


class Report(BaseModel):
    """A line from a referee process: what is set is reported."""

    ready: bool = False
    """Everything was checked; orders may come."""
    id: int | None = None
    """Of the attempt that ended, with its outcome, an error, or neither if it was cancelled."""
    outcome: str | None = None
    """As JSON: see `OUTCOME`."""
    error: str | None = None
    """Without an id: the process cannot work at all."""
    folder: str | None = None
    """Of the attempt, if it was recorded elsewhere; take it in from here."""
    lost: str | None = None
    """Why nothing is known of the attempt, if the machine that recorded it was lost."""
    calls: int | None = None
    """Tool calls so far."""
    line: str | None = None
    """A line of its stderr."""


OUTCOME = TypeAdapter(Outcome)

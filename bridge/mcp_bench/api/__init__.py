"""The Python API of mcp-bench, for notebooks and scripts.

    from mcp_bench.api import open_home, record

    run = record("codex", limit=5)
    run.episodes().to_pandas()

What `__all__` lists here, in `mcp_bench.trainer.api`, `mcp_bench.servers.sdk` and `mcp_bench.plugins.sdk` is
public. Every other module can change in any release.
"""

from mcp_bench.api.episodes import Call, Episode
from mcp_bench.api.frame import Frame
from mcp_bench.api.home import Home, Manifest, UnreadableRunWarning, open_home
from mcp_bench.api.process import RunDiedError
from mcp_bench.api.recording import record, record_async, resume, resume_async
from mcp_bench.api.runs import Run, Summary
from mcp_bench.api.scores import (
    Compared,
    Comparison,
    Difference,
    Flip,
    Measured,
    PassK,
    Score,
    ScoreDifference,
)
from mcp_bench.bridge.run.events import EpisodeEnded, EpisodeStarted, Event, RunEnded, RunStarted
from mcp_bench.recorder.curation.selection import Selection
from mcp_bench.recorder.errors import LeakError, NothingToExportError, RunLockedError, StorageError
from mcp_bench.recorder.records import Flag, PlannedEpisode, RunInfo
from mcp_bench.recorder.run_settings import RunSettings
from mcp_bench.recorder.taint import Evidence
from mcp_bench.recorder.trajectory import Message, ModelCall, ToolCall, ToolSchema, Trajectory, Usage
from mcp_bench.servers.errors import BenchError, MissingDependencyError, UnknownNameError, WrongUseError
from mcp_bench.servers.grading import AssertionResult, Grade

__all__ = [
    "AssertionResult",
    "BenchError",
    "Call",
    "Compared",
    "Comparison",
    "Difference",
    "Episode",
    "EpisodeEnded",
    "EpisodeStarted",
    "Event",
    "Evidence",
    "Flag",
    "Flip",
    "Frame",
    "Grade",
    "Home",
    "LeakError",
    "Manifest",
    "Measured",
    "Message",
    "MissingDependencyError",
    "ModelCall",
    "NothingToExportError",
    "PassK",
    "PlannedEpisode",
    "Run",
    "RunDiedError",
    "RunEnded",
    "RunInfo",
    "RunLockedError",
    "RunSettings",
    "RunStarted",
    "Score",
    "ScoreDifference",
    "Selection",
    "StorageError",
    "Summary",
    "ToolCall",
    "ToolSchema",
    "Trajectory",
    "UnknownNameError",
    "UnreadableRunWarning",
    "Usage",
    "WrongUseError",
    "open_home",
    "record",
    "record_async",
    "resume",
    "resume_async",
]

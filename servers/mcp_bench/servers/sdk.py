"""Everything that the author of a benchmark imports. See docs/own-benchmark.md."""

from mcp_bench.servers.answer import ANSWER_TAKEN, SUBMIT_ANSWER
from mcp_bench.servers.contracts import (
    ALL_SPLITS,
    JSON,
    VACUOUS,
    AssertionResult,
    Benchmark,
    ChatMessage,
    Converses,
    Grade,
    Image,
    Limits,
    Reference,
    Replay,
    ReportsAssertions,
    Score,
    Suggests,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
    World,
    partial_credit,
)
from mcp_bench.servers.errors import BenchError, MissingDependencyError, UnknownNameError, WrongUseError
from mcp_bench.servers.grading import share_of_par
from mcp_bench.servers.progress import report_progress
from mcp_bench.servers.remote import RemoteBenchmark
from mcp_bench.servers.simple import SimpleBenchmark, SimpleWorld
from mcp_bench.servers.step_world import LOOK, IllegalMoveError, Move, StepBenchmark, StepWorld

__all__ = [
    "ALL_SPLITS",
    "ANSWER_TAKEN",
    "JSON",
    "LOOK",
    "SUBMIT_ANSWER",
    "VACUOUS",
    "AssertionResult",
    "BenchError",
    "Benchmark",
    "ChatMessage",
    "Converses",
    "Grade",
    "IllegalMoveError",
    "Image",
    "Limits",
    "MissingDependencyError",
    "Move",
    "Reference",
    "RemoteBenchmark",
    "Replay",
    "ReportsAssertions",
    "Score",
    "SimpleBenchmark",
    "SimpleWorld",
    "StepBenchmark",
    "StepWorld",
    "Suggests",
    "Task",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "UnknownNameError",
    "World",
    "WrongUseError",
    "partial_credit",
    "report_progress",
    "share_of_par",
]

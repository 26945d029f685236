"""An attempt that another tool recorded."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Self

from pydantic import Field, JsonValue

from mcp_bench.recorder.records import Termination
from mcp_bench.recorder.runs.stored_rows import END_US
from mcp_bench.recorder.trajectory import Message, Model, ToolSchema, Usage

IMPORTED = "imported"
"""Stands for a benchmark, domain or split that the source does not name."""
UNKNOWN = "unknown"
"""Stands for an agent that the source does not name, and for versions."""

_ROUNDING = 1e-6
"""Sums of weighted scores are this far off at most."""


class RowError(ValueError):
    """A row that cannot be imported; the text says why."""


class Attempt(Model):
    """An attempt as its source describes it. It is ungraded if `partial` is None.

    `messages` are complete and in order. Call ids are unique, and each result follows the turn that
    made its call.
    """

    messages: list[Message] = Field(min_length=1)
    tools: list[ToolSchema] = Field(default_factory=list)
    benchmark: str | None = None
    task: str
    split: str | None = None
    domain: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    model: str | None = None
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    partial: float | None = Field(default=None, ge=0, le=1)
    strict: bool | None = None
    """Default: true if `partial` is 1."""
    assertions: list[dict[str, JsonValue]] = Field(default_factory=list)
    metrics: dict[str, JsonValue] = Field(default_factory=dict)
    final_state: JsonValue = None
    usage: Usage | None = None
    termination: Termination | None = None
    error: str | None = None
    """Why the attempt failed to run, according to the source. It is then invalid."""
    trainable: bool = True
    """False if the benchmark forbids training on the task."""
    id: str | None = None
    """The source's own id."""
    started_us: int | None = Field(default=None, ge=0, lt=END_US)
    """Microseconds since the epoch, UTC."""

    @property
    def prompt(self) -> str:
        return next((m.content for m in self.messages if m.role == "user" and m.content), "")

    @property
    def answer(self) -> str | None:
        last = self.messages[-1]
        return last.content if last.role == "assistant" and not last.tool_calls else None

    def with_defaults(self) -> Self:
        """Return the attempt with what the store, and so its exports, have in place of missing facts."""
        strict = None if self.partial is None else self.partial == 1 if self.strict is None else self.strict
        found = {"benchmark": self.benchmark or IMPORTED, "agent": self.agent or UNKNOWN, "strict": strict}
        return self.model_copy(update=found)

    def digest(self) -> str:
        """Return a hash of content and grade, independent of the file and its format.

        Raises:
            UnicodeEncodeError: a text has lone surrogates, which cannot be stored.
        """
        content = self.model_dump(
            include={"messages", "benchmark", "task", "agent", "model", "seed", "partial", "strict", "error"}
        )
        text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def number(value: Any) -> float | None:
    """Return a grade as a float, or None if it is not a number."""
    if isinstance(value, bool | int | float):
        return float(value)
    return None


def partial_grade(reward: Any) -> float | None:
    """Return a reward as a grade, or None if it is not a number.

    Raises:
        RowError: it is not from 0 to 1. The scores beside it have another scale then, too, and none of the
            formats states it.
    """
    value = number(reward)
    if value is None:
        return None
    if not -_ROUNDING <= value <= 1 + _ROUNDING:
        raise RowError(
            f"the score {value:g} is not between 0 and 1, and the file does not say from what scale it is: "
            "divide its scores by the highest possible one"
        )
    return min(max(value, 0.0), 1.0)

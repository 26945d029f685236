"""A sample of an Inspect log as an attempt.

The score becomes the partial grade: a number, or one of Inspect's letters C, P, N and I. Our own logs have
more facts in the sample's metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

from mcp_bench.recorder.formats.facts import KEY
from mcp_bench.recorder.formats.inspect import NO_MODEL
from mcp_bench.recorder.importers.attempt import Attempt, RowError, number, partial_grade
from mcp_bench.recorder.importers.conversation import chat_messages, tool_schemas
from mcp_bench.recorder.importers.facts import facts, failed_calls
from mcp_bench.recorder.importers.json_rows import ROW_BYTES
from mcp_bench.recorder.records import Termination
from mcp_bench.recorder.trajectory import Usage

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_ATTACHED = "attachment://"
_LIMITS: Mapping[Any, Termination] = {
    "time": "timeout",
    "working": "timeout",
    "message": "max_calls",
    "turn": "max_calls",
}


def attempt(spec: Mapping[str, Any], sample: Mapping[str, Any]) -> Attempt:
    """Convert a sample.

    Args:
        spec: the `eval` of its log.
        sample: the sample.

    Raises:
        RowError: it is malformed. Other errors that malformed data cause can be raised, too.
    """
    attached = _Attachments(sample)
    messages = attached.put_into(sample.get("messages")) or _input(attached.put_into(sample["input"]))
    ours = (sample.get("metadata") or {}).get(KEY)
    ours = ours if isinstance(ours, dict) else {}
    scores = sample.get("scores") or {}
    values = {name: _value(score.get("value")) for name, score in scores.items()}
    model = spec.get("model")
    fields: dict[str, Any] = {
        "benchmark": str(spec["task"]),
        "task": str(sample["id"]),
        "agent": spec.get("solver") or None,
        "model": None if model == NO_MODEL else model,
        "seed": int(sample.get("epoch") or 1) - 1,
        "partial": partial_grade(next((value for value in values.values() if value is not None), None)),
        "usage": _usage(sample.get("model_usage") or {}),
        "id": sample.get("uuid"),
        **facts(ours),
    }
    return Attempt(
        messages=chat_messages(messages, failed_calls(ours)),
        tools=_tools(sample, attached),
        agent_version=_text(ours.get("agent_version")),
        termination=_termination(sample, ours),
        error=_error(sample),
        started_us=_microseconds(sample.get("started_at")),
        **_grade(ours, scores, values),
        **fields,
    )


class _Attachments:
    """The long texts of a sample, which Inspect stores once and refers to."""

    def __init__(self, sample: Mapping[str, Any]) -> None:
        self._texts = sample.get("attachments") or {}
        self._left = ROW_BYTES

    def put_into(self, value: Any) -> Any:
        """Replace references with texts. Many references to one text could fill the disk."""
        if isinstance(value, str) and value.startswith(_ATTACHED):
            text = self._texts.get(value.removeprefix(_ATTACHED), value)
            self._left -= len(text)
            if self._left < 0:
                raise RowError(f"with its attachments it has more than {ROW_BYTES >> 20} MiB")
            return text
        if isinstance(value, list):
            return [self.put_into(item) for item in value]
        if isinstance(value, dict):
            return {key: self.put_into(item) for key, item in value.items()}
        return value


def _input(given: Any) -> list[Any]:
    """Return what a sample began with: one that failed at once has no messages."""
    return given if isinstance(given, list) else [{"role": "user", "content": given}]


def _grade(
    ours: Mapping[str, Any], scores: Mapping[str, Any], values: Mapping[str, float | None]
) -> dict[str, Any]:
    """Return assertions and metrics: those of our own grader, else one assertion for each score."""
    if ours:
        graded = (scores.get("partial") or {}).get("metadata") or {}
        return {"assertions": graded.get("assertions") or [], "metrics": graded.get("metrics") or {}}
    return {
        "assertions": [_assertion(name, values[name], score) for name, score in scores.items()],
        "metrics": {"scores": {name: score.get("value") for name, score in scores.items()}},
    }


def _error(sample: Mapping[str, Any]) -> str | None:
    error = sample.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or error)
    withdrawn = sample.get("invalidation")
    return f"invalidated: {withdrawn.get('reason') or ''}" if isinstance(withdrawn, dict) else None


def _termination(sample: Mapping[str, Any], ours: Mapping[str, Any]) -> Termination | None:
    stated = ours.get("termination")
    if stated in get_args(Termination):
        return stated
    return _LIMITS.get((sample.get("limit") or {}).get("type"))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _value(value: Any) -> float | None:
    """Return a score as a number, or the mean of several scores."""
    if isinstance(value, str):
        found = _LETTERS.get(value)
    elif isinstance(value, dict) and value:
        parts = [_value(part) for part in value.values()]
        known = [part for part in parts if part is not None]
        found = sum(known) / len(known) if known else None
    else:
        found = value
    return number(found)


def _assertion(name: str, value: float | None, score: Mapping[str, Any]) -> dict[str, Any]:
    detail = str(score.get("explanation") or "")
    return {"name": name, "passed": value == 1, "detail": detail}


def _tools(sample: Mapping[str, Any], attached: _Attachments) -> list[Any]:
    """Return the tools of the first model call that offered any."""
    for event in sample.get("events") or []:
        if isinstance(event, dict) and event.get("event") == "model" and event.get("tools"):
            return tool_schemas(attached.put_into(event["tools"]))
    return []


def _usage(by_model: Mapping[str, Any]) -> Usage | None:
    if not by_model:
        return None

    def total(*names: str) -> int:
        return sum(int(usage.get(name) or 0) for usage in by_model.values() for name in names)

    costs = [
        usage["total_cost"] for usage in by_model.values() if number(usage.get("total_cost")) is not None
    ]
    return Usage(
        cost_usd=sum(costs) if costs else None,
        input_tokens=total("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write"),
        output_tokens=total("output_tokens"),
        cached_tokens=total("input_tokens_cache_read"),
    )


def _microseconds(time: Any) -> int | None:
    return int(datetime.fromisoformat(time).timestamp() * 1_000_000) if isinstance(time, str) else None

"""Rows of calls, and turns with weights, of a run of the oracle: redaction changes their texts, and no label."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.export.steps import Replayed, labelled
from mcp_bench.recorder.trajectory import Message, Trajectory
from tests.support.processes.forked import run_module

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]
REDACT = ("--redact", "emails", "--redact", "secrets")


@pytest.fixture
def addresses(tmp_path: Path) -> None:
    """Record a task whose solution writes to e-mail addresses. Refused calls come before the right ones."""
    task = "marketing-campaign-budget.3.train.0"
    options = ["--task", task, "--agent-option", "slips=0.9", "--isolation", "none"]
    argv = ["record", "--agent", "oracle", *options]
    run_module("mcp_bench.bridge.cli.root", argv, env=os.environ, cwd=tmp_path).check_returncode()


def rows(invoke: Invoke, out: Path, *options: str) -> list[dict[str, Any]]:
    result = invoke(export, *options, "--min-partial", "0", "--out", out)
    assert result.exit_code == 0, (result.output, result.exception)
    return [json.loads(line) for line in out.read_text().splitlines()]


def with_address(row: dict[str, Any], mark: str) -> bool:
    """Return whether the call of a row has an address, written as `mark`, in its arguments."""
    return mark in json.dumps(row["completion"][0]["tool_calls"][0]["function"]["arguments"])


@pytest.mark.usefixtures("addresses")
def test_calls_with_redacted_arguments_keep_labels(invoke: Invoke, tmp_path: Path) -> None:
    plain = rows(invoke, tmp_path / "plain.jsonl", "--steps")
    redacted = rows(invoke, tmp_path / "redacted.jsonl", "--steps", *REDACT)
    assert any(with_address(row, "@") for row in plain)
    assert [with_address(row, "[EMAIL_") for row in redacted] == [with_address(row, "@") for row in plain]
    assert "@" not in "".join(json.dumps([row["prompt"], row["completion"]]) for row in redacted)
    effects = ("id", "step", "label", "objectives", "met", "broken")
    assert [[row[name] for name in effects] for row in redacted] == [
        [row[name] for name in effects] for row in plain
    ]
    assert {"progress", "neutral", "error"} <= {row["label"] for row in redacted}


@pytest.mark.usefixtures("addresses")
def test_turns_with_redacted_arguments_keep_weights(invoke: Invoke, tmp_path: Path) -> None:
    weights = ("--step-weight", "error=0", "--step-weight", "repeated_error=0")
    plain = rows(invoke, tmp_path / "plain.jsonl", *weights)
    redacted = rows(invoke, tmp_path / "redacted.jsonl", *weights, *REDACT)
    weight = [[turn.get("weight") for turn in row["messages"]] for row in redacted]
    assert weight == [[turn.get("weight") for turn in row["messages"]] for row in plain]
    assert {0.0, 1.0} <= {one for row in weight for one in row}
    assert "@" in json.dumps([row["messages"] for row in plain])
    assert "@" not in json.dumps([row["messages"] for row in redacted])


def test_calls_of_the_agents_own_tools_are_errors_if_they_failed() -> None:
    """They are not recorded: only their results say what became of them."""
    names = {"worked": False, "failed": True, "unanswered": None}
    asked = Message.model_validate(
        {
            "role": "assistant",
            "tool_calls": [
                {"id": name, "function": {"name": "Bash", "arguments": {"command": name}}} for name in names
            ],
        }
    )
    results = [
        Message(role="tool", content="x", tool_call_id=name, name="Bash", is_error=failed)
        for name, failed in names.items()
        if failed is not None
    ]
    conversation = Trajectory(
        id="ep", benchmark="b", task="t", split="train", domain="d", agent="x", seed=0, isolation="none",
        tools=[], messages=[asked, *results],
    )  # fmt: skip
    replayed = Replayed([], [], same=True)
    assert [step.label for _, _, step in labelled(conversation, replayed)] == ["neutral", "error", "error"]

"""What is particular about Qwen Code. The rest: `test_agent_conformance.py`."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_bench.plugins.qwen_code.session import model_name
from tests.support.desk.desk_script import check_conversation

pytestmark = pytest.mark.system


def test_events_replace_a_missing_session_file(finished_by: Callable, tmp_path: Path) -> None:
    """It writes the file late, and not at all if it is killed early."""
    done = finished_by("qwen-code")
    transcript = done.work.agent.read(replace(done.work.output, home=tmp_path / "none"), done.work.server)
    check_conversation(transcript)
    assert (transcript.usage, transcript.model) == (done.transcript.usage, done.transcript.model)


def test_names_of_tools() -> None:
    """The program itself made the first two."""
    assert model_name("mcp__desk__add") == "mcp__desk__add"
    assert model_name("mcp__desk__desk.tidy") == "mcp__desk__desk_tidy_1o51pqn"
    long = model_name("mcp__desk__" + "a" * 80)
    assert (len(long), long[:50]) == (63, "mcp__desk__" + "a" * 39)

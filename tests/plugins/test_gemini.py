"""What is particular about Gemini CLI. The rest: `test_agent_conformance.py`."""

from collections.abc import Callable

import pytest

from mcp_bench.plugins.gemini.session import model_name

pytestmark = pytest.mark.system


def test_results_are_read_without_its_own_words(finished_by: Callable) -> None:
    messages = finished_by("gemini").transcript.messages
    assert [message.content for message in messages if message.role == "tool"][:2] == ["3", "7"]


def test_names_of_tools() -> None:
    """It cuts out the middle of a long one."""
    assert model_name("desk", "tidy up") == "mcp_desk_tidy_up"
    long = model_name("desk", "a" * 40 + "b" * 40)
    assert long == "mcp_desk_" + "a" * 21 + "..." + "b" * 30

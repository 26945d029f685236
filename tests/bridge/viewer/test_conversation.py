"""The calls of a conversation, as the page of an episode has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from click import unstyle
from click.testing import CliRunner

from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import client
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component


def test_a_call_of_the_agents_own_tools_failed_if_it_says_so(bench_home: Path) -> None:
    """With `--tools all` an agent has a shell, say, whose calls are in its transcript alone."""
    names = ("shell", "edit", "ask")
    calls = [ToolCall(id=name, function=FunctionCall(name=name)) for name in names]
    transcript = [
        Message(role="assistant", tool_calls=calls),
        Message(role="tool", tool_call_id="shell", content="a.txt"),
        Message(role="tool", tool_call_id="edit", content="no such file", is_error=True),
        Message(role="assistant", content="Done."),
    ]
    folder, (episode,) = record([(planned(), Episode(calls=(), transcript=transcript))])
    page = parse(client().get(f"/runs/{folder.id}/{episode}").text)
    drawn = [one for one in page.all("details") if "call" in one.attributes.get("class", "").split()]
    assert [one.attributes["class"] for one in drawn] == ["call", "call failed", "call failed"]
    shown = CliRunner().invoke(show, [episode], color=True).output.splitlines()
    never = [line for line in shown if "never reached the server" in line]
    assert [unstyle(line).split()[5] for line in never] == list(names)
    assert ["\x1b[32mnever" in line for line in never] == [True, False, False]

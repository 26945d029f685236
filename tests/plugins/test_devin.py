"""Devin's plugin on a STAND-IN with the documented interface and on ATIF fixtures.

The real program needs an account, and has never been run.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_bench.plugins.acp.agent import Acp
from mcp_bench.plugins.contracts import AgentOutput, LaunchRequest, McpServer
from mcp_bench.plugins.devin.agent import CREDENTIALS, Devin
from mcp_bench.plugins.needs import LoginMissingError
from mcp_bench.servers.errors import MissingDependencyError, WrongUseError
from tests.support import SUPPORT
from tests.support.agents.agent_attempt import Attempt

pytestmark = pytest.mark.system

Make = Callable[..., Attempt]
STAND_IN = SUPPORT / "agents" / "devin_stand_in.py"
SERVER = McpServer("desk", ("server",), ("add", "desk.tidy"))
LOGIN = "token = 'not to be read'"


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The HOME of a user who is logged in, with `devin` (the stand-in) in ~/bin."""
    home = tmp_path / "user"
    (home / CREDENTIALS).parent.mkdir(parents=True)
    (home / CREDENTIALS).write_text(LOGIN)
    program = home / "bin" / "devin"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    program.chmod(0o755)
    return home


def by(attempt: Make, user: Path) -> Attempt:
    """An attempt by that user."""
    return attempt(Devin(), environ={"HOME": str(user), "PATH": f"{user}/bin:/usr/bin:/bin"})


def test_stand_in_makes_a_call_and_it_is_recorded(attempt: Make, user: Path) -> None:
    work = by(attempt, user)
    transcript = work.run(None, model="some-model")
    assert work.journal == [("add", {"a": 1, "b": 2})], work.output.stderr.read_text()
    recorded = [(m.role, m.content, m.reasoning, m.name) for m in transcript.messages]
    assert recorded == [
        ("assistant", "Adding.", "A sum is needed.", None),
        ("tool", "3", None, "add"),
        ("assistant", "It is 3.", None, None),
    ]
    assert (transcript.answer, transcript.model, transcript.fault) == ("It is 3.", "some-model", None)
    assert transcript.usage is not None
    assert transcript.usage.model_dump(exclude_none=True) == {
        "input_tokens": 200,
        "output_tokens": 20,
        "cached_tokens": 80,
        "cost_usd": 0.02,
    }


def test_the_login_is_lent_and_not_copied(attempt: Make, user: Path) -> None:
    work = by(attempt, user)
    work.run(None)
    lent = work.home / CREDENTIALS
    assert lent.is_symlink()
    assert lent.resolve() == user / CREDENTIALS
    assert (user / CREDENTIALS).read_text() == LOGIN
    kept = [
        p for p in work.folder.rglob("*") if p.is_file() and not p.is_symlink() and LOGIN in p.read_text()
    ]
    assert kept == []


def test_without_a_login_it_is_not_started(attempt: Make, user: Path) -> None:
    (user / CREDENTIALS).unlink()
    with pytest.raises(LoginMissingError, match="devin auth login"):
        by(attempt, user).run(None)


def test_a_login_that_is_gone_by_then_is_a_fault(attempt: Make, user: Path) -> None:
    transcript = by(attempt, user).run(None, spoil=lambda home: (home / CREDENTIALS).unlink())
    assert transcript.fault is not None
    assert transcript.fault.kind == "login_missing"


def test_it_cannot_be_pointed_at_another_endpoint(attempt: Make, user: Path) -> None:
    for agent, options in ((Devin(), {}), (Acp(), {"command": "devin acp"})):
        work = by(attempt, user)
        request = LaunchRequest("x", work.home, work.workdir, SERVER, Devin().find(work.environ))
        with pytest.raises(WrongUseError, match="base-url"):
            agent.prepare(
                LaunchRequest(
                    **{**vars(request), "base_url": "http://x", "options": options, "environ": work.environ}
                )
            )
        work.folder.rename(work.folder.with_name(agent.name))


def test_rules_deny_its_own_tools_unless_all_are_wanted(attempt: Make, user: Path) -> None:
    found: dict[str, Any] = {}
    for tools in ("mcp-only", "all"):
        work = by(attempt, user)
        work.run(None, tools=tools)
        found[tools] = json.loads((work.home / "devin.json").read_text())["permissions"]
        work.folder.rename(work.folder.with_name(tools))
    assert found["all"] == {"allow": ["mcp__desk__*"]}
    assert found["mcp-only"]["allow"] == ["mcp__desk__*"]
    assert "Exec(*)" in found["mcp-only"]["deny"]


def test_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match=r"docs\.devin\.ai"):
        Devin().find({"PATH": str(tmp_path)})


def left(home: Path, document: Any) -> AgentOutput:
    folder = home / ".local/share/devin/cli/transcripts"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "s1.json").write_text(json.dumps(document))
    return AgentOutput(home / "stdout", home / "stderr", home, home, None)


# An ATIF fixture, written from the format's specification.
FIXTURE = {
    "schema_version": "ATIF-v1.7",
    "agent": {"name": "devin", "version": "1", "model_name": "m1"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "Be good."},
        {"step_id": 2, "source": "user", "message": "Tidy up."},
        {
            "step_id": 3,
            "source": "agent",
            "model_name": "m2",
            "message": [{"type": "text", "text": "Tidying."}, {"type": "image", "source": {}}],
            "tool_calls": [
                {"tool_call_id": "a", "function_name": "mcp__desk__desk_tidy", "arguments": {}},
                {"tool_call_id": "b", "function_name": "Bash", "arguments": {"command": "ls"}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "b", "content": "files"},
                    {"source_call_id": "a", "content": [{"type": "text", "text": "tidy"}]},
                    {"content": "of no call"},
                ]
            },
            "metrics": {"prompt_tokens": 7, "completion_tokens": 2},
        },
    ],
}


def test_session_without_export_is_read_from_its_own_copy(tmp_path: Path) -> None:
    transcript = Devin().read(left(tmp_path, FIXTURE), SERVER)
    (turn, *results) = transcript.messages
    assert turn.content == "Tidying."
    assert [call.function.name for call in turn.tool_calls] == ["desk.tidy", "Bash"]
    assert [(m.tool_call_id, m.content) for m in results] == [("a", "tidy"), ("b", "files")]
    assert (transcript.answer, transcript.model) == (None, "m2")
    assert transcript.usage is not None
    assert (transcript.usage.input_tokens, transcript.usage.model_calls) == (7, 1)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["source", "message", "tool_calls", "observation", "x"]), inner)
    ),
    max_leaves=8,
)


@given(
    steps=st.lists(
        ODD
        | st.builds(dict, source=st.just("agent"), message=ODD, tool_calls=ODD, observation=ODD, metrics=ODD),
        max_size=4,
    ),
    model=ODD,
)
@example([{"source": "agent", "model_name": 5}], {})
def test_reading_survives_whatever_is_left(
    tmp_path_factory: pytest.TempPathFactory, steps: list, model: Any
) -> None:
    document = {"steps": steps, "agent": {"model_name": model}, "final_metrics": {}}
    output = left(tmp_path_factory.mktemp("devin"), document)
    transcript = Devin().read(output, SERVER)
    assert type(transcript).model_validate_json(transcript.model_dump_json()) == transcript

"""A slow MCP server: agents wait for it, and one that takes too long is a fault."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.plugins.claude_code import agent as claude_code
from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.real_agents import REAL_AGENTS, agents
from tests.support.desk.desk_script import JOURNAL, check_conversation
from tests.support.desk.held_server import HeldServer
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate

pytestmark = pytest.mark.system

Make = Callable[..., Attempt]
OVER_ACP = ("acp-codex", "acp-gemini", "acp-opencode")
"""The referee holds their prompt: see tests/bridge/agents/test_opencode_and_acp.py."""
SOON = 3
"""Seconds in which an agent that does not wait would have asked its model."""


@pytest.fixture
def work(attempt: Make, name: str) -> Attempt:
    return attempt(REAL_AGENTS[name].plugin())


@pytest.fixture
def held(work: Attempt, tmp_path: Path) -> Iterator[HeldServer]:
    """The attempt's server, which starts when the test releases it."""
    with closing(HeldServer(work.server, tmp_path)) as held:
        work.server = held.entry
        yield held


@agents("gemini", "qwen-code", "opencode", but=OVER_ACP)
def test_it_is_waited_for(work: Attempt, held: HeldServer, endpoint: ModelEndpoint, name: str) -> None:
    gate = Gate()
    endpoint.fault = Fault(gate=gate)
    process = work.start(REAL_AGENTS[name].address(endpoint))
    started = held.wait_until_started()
    asked = gate.arrived.wait(SOON)
    gate.release.set()
    held.let_go()
    transcript = work.finish(process)
    assert (started, asked) == (True, False)
    check_conversation(transcript)
    assert (work.journal, transcript.fault) == (JOURNAL, None)


PATIENCE = {
    "codex": (".codex/config.toml", r'("startup_timeout_sec" = )\d+', r"\g<1>1"),
    "qwen-code": (".qwen/settings.json", r'("discoveryTimeoutMs": )\d+', r"\g<1>1000"),
    "opencode": ("opencode.json", r'("timeout": )\d+', r"\g<1>1000"),
}
"""The file and pattern of each agent's timeout, and the replacement for one second."""


@agents("qwen-code", "opencode", but=(*OVER_ACP, "gemini"))
def test_one_that_takes_too_long_is_a_fault(
    work: Attempt,
    held: HeldServer,
    endpoint: ModelEndpoint,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gemini CLI waits until its episode ends; then the referee sees that it never connected."""
    monkeypatch.setitem(claude_code.FIXED, "MCP_TIMEOUT", "1000")

    def impatient(home: Path) -> None:
        if name in PATIENCE:
            path, pattern, value = PATIENCE[name]
            text, count = re.subn(pattern, value, (home / path).read_text())
            assert count
            (home / path).write_text(text)

    transcript = work.run(REAL_AGENTS[name].address(endpoint), spoil=impatient)
    assert held.wait_until_started()
    assert work.journal == []
    assert transcript.fault is not None
    assert transcript.fault.kind == "server_not_connected"

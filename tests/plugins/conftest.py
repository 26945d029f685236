"""Real agents on a real MCP server and a scripted model endpoint."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.plugins.contracts import Transcript
from tests.support.agents.agent_attempt import Attempt
from tests.support.agents.agent_cases import KEY
from tests.support.agents.real_agents import REAL_AGENTS
from tests.support.desk.desk_script import script
from tests.support.model_endpoint.endpoint import ModelEndpoint

USER = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)


@dataclass(frozen=True)
class Finished:
    """One attempt at the whole script. Tests share it and must not change it."""

    work: Attempt
    transcript: Transcript
    endpoint: ModelEndpoint
    """Closed; its requests can still be read."""


@pytest.fixture
def key() -> str:
    """The only key that the endpoint accepts."""
    return KEY


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    with ModelEndpoint([script()], api_key=KEY) as running:
        yield running


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[..., Attempt]:
    """Make folders for one launch of an agent, in whose user's environment the key is set."""

    def make(agent: Any, **settings: Any) -> Attempt:
        return Attempt(tmp_path / "attempt", agent, **{"environ": USER, **settings})

    return make


@pytest.fixture(scope="session")
def finished_by(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Finished]:
    """Return the finished attempt of an agent. Each agent is launched once: starting one takes seconds."""

    @cache
    def finished(name: str) -> Finished:
        real = REAL_AGENTS[name]
        work = Attempt(tmp_path_factory.mktemp(name) / "attempt", real.plugin(), environ=USER)
        with ModelEndpoint([script()], api_key=KEY) as endpoint:
            return Finished(work, work.run(real.address(endpoint)), endpoint)

    return finished

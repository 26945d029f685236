"""Real agents on a real MCP server and a scripted model endpoint."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents.agent_attempt import Attempt
from tests.support.desk.desk_script import script
from tests.support.model_endpoint.endpoint import ModelEndpoint

KEY = "dummy-key-0123456789"


@pytest.fixture
def key() -> str:
    """The only key that the endpoint takes."""
    return KEY


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    with ModelEndpoint([script()], api_key=KEY) as running:
        yield running


@pytest.fixture
def attempt(tmp_path: Path) -> Callable[..., Attempt]:
    """Make folders for one launch of an agent, in whose user's environment the key is set."""

    def make(agent: Any, **settings: Any) -> Attempt:
        environ = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)
        return Attempt(tmp_path / "attempt", agent, **{"environ": environ, **settings})

    return make

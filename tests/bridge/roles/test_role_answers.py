"""What models that play a role answer, and how the conversation goes on."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_bench.bridge.roles.episode_host import EpisodeHost
from mcp_bench.bridge.roles.limits import RoleLimits
from mcp_bench.bridge.roles.models import RoleModel, Roles
from mcp_bench.recorder.store.asked import Asked
from mcp_bench.servers.contracts import ChatMessage, ToolCall
from mcp_bench.servers.errors import HostError
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault

pytestmark = [pytest.mark.component, pytest.mark.anyio]


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    with ModelEndpoint([]) as found:
        yield found


CALL = {"id": "1", "type": "function", "function": {"name": "find", "arguments": r'{"a": "\ud83d"}'}}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"content": "fine \ud83d"}, ChatMessage(role="assistant", content="fine ?")),
        (
            {"content": None, "tool_calls": [CALL]},
            ChatMessage(role="assistant", calls=(ToolCall(name="find", arguments={"a": "?"}),)),
        ),
    ],
)
async def test_half_a_character_ends_no_conversation(
    endpoint: ModelEndpoint, message: dict[str, Any], said: ChatMessage
) -> None:
    """Models write it, and no request can have it: the next question failed."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    endpoint.fault = Fault(text=json.dumps({"model": "m", "choices": [choice]}), first=1)
    model = RoleModel("user", "m", endpoint.openai_url, "none")
    asked: list[Asked] = []
    host = EpisodeHost(Roles({"user": model}), seed=0, store=asked.append)
    try:
        talk = [ChatMessage(role="system", content="You are a customer.")]
        talk.append(await host.ask("user", talk))
        assert talk[1] == said
        await host.ask("user", [*talk, ChatMessage(role="user", content="Go on.")])
    finally:
        await host.aclose()
    assert [one.error for one in asked] == [None, None]


async def test_a_limit_of_tokens_is_written_out(endpoint: ModelEndpoint) -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "fine"}}
    usage = {"prompt_tokens": 1_234_000, "completion_tokens": 567, "total_tokens": 1_234_567}
    endpoint.fault = Fault(text=json.dumps({"model": "m", "choices": [choice], "usage": usage}))
    model = RoleModel("user", "m", endpoint.openai_url, "none")
    limits = RoleLimits(tokens=1_234_567)
    host = EpisodeHost(Roles({"user": model}, limits), seed=0, store=lambda _: None)
    try:
        talk = [ChatMessage(role="user", content="Hello.")]
        await host.ask("user", talk)
        with pytest.raises(HostError):
            await host.ask("user", talk)
    finally:
        await host.aclose()
    failure = host.take_failure()
    assert failure is not None
    assert "1,234,567 tokens are the limit of an episode (--role-limit tokens=N)" in failure.detail

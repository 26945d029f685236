"""The engine speaks three model APIs: one request in each, whole and streamed, and the turn that follows it.

The requests of Codex and Claude Code are shortened ones that their real programs sent (`requests/`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcp_bench.recorder.model_api.dialects import dialect_of
from mcp_bench.recorder.model_api.dialects.dialect import Reply
from mcp_bench.recorder.model_api.dialects.sse import json_events
from mcp_bench.trainer.engine.app import Policy, make_app
from mcp_bench.trainer.engine.load import load
from tests.support.training.scripted_engine import LOGPROB, ScriptedEngine, calls_then_text, scripted
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save, template

pytestmark = pytest.mark.component

REQUESTS = Path(__file__).with_name("requests")
PATHS = {
    "chat": "/v1/chat/completions",
    "codex": "/v1/responses",
    "claude-code": "/v1/messages",
}
CALL = {"name": "hiring_candidates_reject", "arguments": {"id": 'ä\n"quoted"'}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, ScriptedEngine]]:
    tokenizer = make_tokenizer(template("qwen3"))
    folder = save(qwen3(len(tokenizer)), tokenizer, tmp_path_factory.mktemp("apis") / "model")
    loaded, engine = scripted(load(folder, calls="hermes", device="cpu"), calls_then_text([CALL], "Done."))
    with TestClient(make_app(loaded, "policy", policy=Policy(lambda: "7"))) as client:
        yield client, engine


def request(agent: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((REQUESTS / f"{agent}.json").read_text(encoding="utf-8"))
    return {**made, "model": "policy"} | (
        {"stream_options": {"include_usage": True}} if agent == "chat" else {}
    )


def ask(client: TestClient, agent: str, body: Mapping[str, Any], *, stream: bool) -> dict[str, Any]:
    """Return the answer as one document."""
    path = f"/ep_1{PATHS[agent]}"
    made = client.post(path, json={**body, "stream": stream})
    assert made.status_code == 200, made.text
    dialect = dialect_of(path)
    assert dialect is not None
    document: dict[str, Any] = dialect.join_events(list(json_events(made.text))) if stream else made.json()
    return document


def reply(agent: str, document: dict[str, Any]) -> Reply:
    dialect = dialect_of(PATHS[agent])
    assert dialect is not None
    return dialect.read_reply(document)


def with_result(agent: str, body: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return the request that an agent makes after it has run the call of an answer."""
    if agent == "chat":
        message = document["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok"}
        return {**body, "messages": [*body["messages"], message, result]}
    if agent == "codex":
        call = document["output"][-1]["call_id"]
        result = {"type": "function_call_output", "call_id": call, "output": "ok"}
        return {**body, "input": [*body["input"], *document["output"], result]}
    call = document["content"][-1]["id"]
    result = {"type": "tool_result", "tool_use_id": call, "content": [{"type": "text", "text": "ok"}]}
    said = {"role": "assistant", "content": document["content"]}
    return {**body, "messages": [*body["messages"], said, {"role": "user", "content": [result]}]}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("agent", PATHS)
def test_a_conversation_goes_on_with_its_tokens(
    served: tuple[TestClient, ScriptedEngine], agent: str, stream: bool
) -> None:
    client, engine = served
    body = request(agent)
    first = ask(client, agent, body, stream=stream)
    said = reply(agent, first)
    [call] = said.calls
    assert call.name.endswith(CALL["name"]) and call.arguments == CALL["arguments"]
    assert said.text == f"I call {CALL['name']}." and said.tokens.version == "7"
    prompt, answer = engine.answered[-1]
    assert (said.tokens.prompt_ids, said.tokens.ids) == (prompt, list(answer))
    assert said.tokens.logprobs == [LOGPROB] * len(answer)
    assert said.usage is not None and said.usage.output_tokens == len(answer)

    second = reply(agent, ask(client, agent, with_result(agent, body, first), stream=stream))
    assert second.text == "Done." and not second.calls
    later = engine.answered[-1][0]
    assert later[: len(prompt) + len(answer)] == [*prompt, *answer]


def test_errors_are_in_the_form_of_the_api(served: tuple[TestClient, ScriptedEngine]) -> None:
    client, _ = served
    wrong = {"model": "policy", "messages": [{"role": "user"}]}
    made = client.post("/v1/messages", json=wrong)
    assert made.status_code == 400 and made.json()["type"] == "error"
    stored = client.post("/v1/responses", json={"model": "policy", "input": "x", "previous_response_id": "r"})
    assert stored.status_code == 400 and "send all items" in stored.json()["error"]["message"]
    image = [{"role": "user", "content": [{"type": "image", "source": {}}]}]
    refused = client.post("/v1/messages", json={"model": "policy", "messages": image, "max_tokens": 5})
    assert refused.status_code == 400 and "text only, not image" in refused.json()["error"]["message"]
    assert client.post("/v1/messages", content=b"{").status_code == 400
    other = client.post("/v1/responses", json={"model": "other", "input": "x"})
    assert other.status_code == 404


def test_a_tool_in_a_namespace_and_one_for_text_are_called_by_their_own_names(
    served: tuple[TestClient, ScriptedEngine],
) -> None:
    client, _ = served
    inner = {"type": "function", "name": CALL["name"], "parameters": {"type": "object"}}
    tools = [{"type": "namespace", "name": "mcp__world", "tools": [inner]}, {"type": "web_search"}]
    made = ask(client, "codex", {"model": "policy", "input": "Go.", "tools": tools}, stream=False)
    call = made["output"][-1]
    assert (call["name"], call["namespace"]) == (CALL["name"], "mcp__world")
    text = {"type": "custom", "name": CALL["name"], "description": "Takes text."}
    made = ask(client, "codex", {"model": "policy", "input": "Go.", "tools": [text]}, stream=True)
    assert made["output"][-1]["type"] == "custom_tool_call"

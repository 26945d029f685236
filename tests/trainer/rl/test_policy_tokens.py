"""A served policy: conversations keep the tokens that were sampled, and trainer and engine agree on them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from mcp_bench.trainer.engine.app import Policy, make_app
from mcp_bench.trainer.engine.load import load
from mcp_bench.trainer.rl.tokens import Sampled, make_rows
from tests.support.training.tiny_checkpoints import (
    QWEN3_CALL,
    TOOLS,
    learn,
    make_tokenizer,
    qwen3,
    save,
    template,
)

pytestmark = pytest.mark.component

QUESTION = {"role": "user", "content": "Who is Ada?"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that calls a tool, however it is asked."""
    tokenizer = make_tokenizer(template("qwen3"))
    model = qwen3(len(tokenizer))
    learn(model, tokenizer, [([QUESTION], QWEN3_CALL)])
    return save(model, tokenizer, tmp_path_factory.mktemp("policy") / "model")


class Served:
    """Asks a served policy."""

    def __init__(self, client: TestClient, model: Any) -> None:
        self._client, self.model = client, model

    def ask(self, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        body = {
            "model": "policy",
            "messages": messages,
            "tools": TOOLS,
            "temperature": 1,
            "max_tokens": 60,
            "seed": 1,
        }
        answer = self._client.post("/v1/chat/completions", json=body | more)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@pytest.fixture
def policy(checkpoint: Path) -> Iterator[Served]:
    loaded = load(checkpoint, calls="hermes", device="cpu", cache_gib=0.1)
    with TestClient(make_app(loaded, "policy", policy=Policy(lambda: "7"))) as client:
        yield Served(client, loaded.model)


def tokens_of(answer: dict[str, Any]) -> Sampled:
    choice = answer["choices"][0]
    logprobs = tuple(entry["logprob"] for entry in choice["logprobs"]["content"])
    return Sampled(
        tuple(answer["prompt_token_ids"]), tuple(choice["token_ids"]), logprobs,
        choice["finish_reason"] == "length",
    )  # fmt: skip


def test_a_later_turn_continues_with_the_sampled_tokens(policy: Served) -> None:
    first = policy.ask([QUESTION], tool_choice="required")
    message = first["choices"][0]["message"]
    [call] = message["tool_calls"]
    history = [QUESTION, message, {"role": "tool", "tool_call_id": call["id"], "content": "Ada: 36"}]
    before = tokens_of(first)
    assert first["system_fingerprint"] == "7" and not before.cut
    second = tokens_of(policy.ask(history))
    assert second.prompt[: len(before.prompt) + len(before.tokens)] == before.prompt + before.tokens
    [row] = make_rows([before, second])
    assert int(row.sampled.sum()) == len(before.tokens) + len(second.tokens)

    # written anew by the agent, with the same meaning: still the tokens that were sampled
    spaced = json.dumps(json.loads(call["function"]["arguments"]), indent=4)
    again = {**message, "tool_calls": [{**call, "function": {**call["function"], "arguments": spaced}}]}
    assert tokens_of(policy.ask([QUESTION, again, history[2]])).prompt == second.prompt

    # another answer than the policy's: a row of its own
    other = {**message, "tool_calls": [{**call, "function": {**call["function"], "arguments": "{}"}}]}
    forked = tokens_of(policy.ask([QUESTION, other, history[2]]))
    assert len(make_rows([before, second, forked])) == 2


def test_an_answer_that_was_cut_off_is_continued_exactly(policy: Served) -> None:
    first = policy.ask([QUESTION], max_tokens=5, temperature=2)
    before = tokens_of(first)
    assert before.cut
    history = [QUESTION, first["choices"][0]["message"], {"role": "user", "content": "Go on."}]
    second = tokens_of(policy.ask(history))
    assert len(make_rows([before, second])) == 1


def test_engine_and_trainer_agree_on_the_probabilities(policy: Served) -> None:
    """Token by token, with the cache of a conversation, against one pass over the row."""
    answers: list[Sampled] = []
    history: list[dict[str, Any]] = [QUESTION]
    for turn in range(3):
        answer = policy.ask(history, temperature=1, seed=turn)
        answers.append(tokens_of(answer))
        history += [answer["choices"][0]["message"], {"role": "user", "content": f"And {turn}?"}]
    [row] = make_rows(answers)
    ids = torch.from_numpy(row.tokens)[None]
    with torch.no_grad():
        logs = policy.model(input_ids=ids).logits[0, :-1].float().log_softmax(-1)
    chosen = logs.gather(1, ids[0, 1:, None])[:, 0][torch.from_numpy(row.sampled)[1:]]
    difference = (chosen - torch.from_numpy(row.logprobs)[torch.from_numpy(row.sampled)]).abs()
    assert float(difference.mean()) <= 1e-6

"""A served policy: conversations keep the tokens that were sampled, and trainer and engine agree on them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient
from tokenizers import AddedToken

from mcp_bench.trainer.engine.api.chat_request import ChatRequest, Message
from mcp_bench.trainer.engine.app import Policy, make_app
from mcp_bench.trainer.engine.conversations import Conversations
from mcp_bench.trainer.engine.load import load
from mcp_bench.trainer.engine.prompt import make_prompt, render
from mcp_bench.trainer.engine.sequence import Completion
from mcp_bench.trainer.rl.credit.algorithms import Weighted
from mcp_bench.trainer.rl.credit.tokens import Row, Sampled, make_rows
from mcp_bench.trainer.rl.learner import Learner
from mcp_bench.trainer.rl.settings import RL
from tests.support.training.byte_tokenizers import QWEN_SPECIAL, byte_tokenizer
from tests.support.training.tiny_checkpoints import (
    QWEN3_CALL,
    TOOLS,
    learn,
    make_tokenizer,
    qwen3,
    save,
    template,
)
from tests.support.training.tiny_models import GLM_SPECIAL

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

    def get(self, path: str) -> Any:
        return self._client.get(path)


@pytest.fixture
def policy(checkpoint: Path) -> Iterator[Served]:
    with served(checkpoint, Policy(lambda: "7")) as client:
        yield client


@contextmanager
def served(checkpoint: Path, policy: Policy) -> Iterator[Served]:
    loaded = load(checkpoint, calls="hermes", device="cpu", cache_gib=0.1)
    with TestClient(make_app(loaded, "policy", policy=policy)) as client:
        yield Served(client, loaded.model)


def tokens_of(answer: dict[str, Any]) -> Sampled:
    choice = answer["choices"][0]
    logprobs = tuple(entry["logprob"] for entry in choice["logprobs"]["content"])
    return Sampled(
        tuple(answer["prompt_token_ids"]), tuple(choice["token_ids"]), logprobs,
        choice["finish_reason"] == "length",
    )  # fmt: skip


def uncut(answers: Sequence[Sampled]) -> list[Row]:
    """Return the rows as if no limit had ended an answer: this model ends few by itself."""
    return make_rows([replace(answer, cut=False) for answer in answers])


def test_a_later_turn_continues_with_the_sampled_tokens(policy: Served) -> None:
    first = policy.ask([QUESTION], tool_choice="required")
    message = first["choices"][0]["message"]
    [call] = message["tool_calls"]
    history = [QUESTION, message, {"role": "tool", "tool_call_id": call["id"], "content": "Ada: 36"}]
    before = tokens_of(first)
    assert first["system_fingerprint"] == "7" and not before.cut
    second = tokens_of(policy.ask(history))
    assert second.prompt[: len(before.prompt) + len(before.tokens)] == before.prompt + before.tokens
    [row] = uncut([before, second])
    assert int(row.sampled.sum()) == len(before.tokens) + len(second.tokens)

    # written anew by the agent, with the same meaning: still the tokens that were sampled
    spaced = json.dumps(json.loads(call["function"]["arguments"]), indent=4)
    again = {**message, "tool_calls": [{**call, "function": {**call["function"], "arguments": spaced}}]}
    assert tokens_of(policy.ask([QUESTION, again, history[2]])).prompt == second.prompt

    # another answer than the policy's: a row of its own
    other = {**message, "tool_calls": [{**call, "function": {**call["function"], "arguments": "{}"}}]}
    forked = tokens_of(policy.ask([QUESTION, other, history[2]]))
    assert len(uncut([before, second, forked])) == 2


FAMILIES = {
    "qwen3": ("hermes", ("<|im_end|>",), QWEN3_CALL, "It is Ada."),
    # the token that ends an answer begins the next message, as in the question before
    "glm4moe": (
        "glm45", ("<|user|>", "<|observation|>"),
        "\n<think></think>\n<tool_call>find\n<arg_key>name</arg_key>\n<arg_value>Ada</arg_value>\n</tool_call>",
        "\n<think></think>\nIt is Ada.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_a_continued_prompt_reads_as_the_template_has_it(family: str, tmp_path: Path) -> None:
    form, ends, call, text = FAMILIES[family]
    tokenizer = byte_tokenizer(template(family), QWEN_SPECIAL if family == "qwen3" else GLM_SPECIAL)
    model = qwen3(len(tokenizer))
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(list(ends))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = load(tmp_path, calls=form, device="cpu", cache_gib=0.01)
    known = Conversations(loaded)
    function = {"name": "find", "arguments": '{"name": "Ada"}'}
    said = {"content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "36"}
    messages: list[dict[str, Any]] = [QUESTION]
    prompt: list[int] | None = None
    for answer, message, following, end in (
        (call, said, result, ends[-1]),
        (text, {"content": "It is Ada."}, {"role": "user", "content": "And Ben?"}, ends[0]),
        (call, said, result, ends[-1]),
    ):
        asked = ChatRequest.model_validate({"model": "m", "tools": TOOLS, "messages": messages})
        if prompt is None:
            prompt = make_prompt(loaded, asked)[0]
        tokens = tuple(tokenizer.encode(answer + end, add_special_tokens=False))
        made = Completion(tokens, answer, (), "stop", 0)
        whole = {"role": "assistant", **message}
        known.add(asked, "ep", made, prompt, whole)
        messages = [*messages, whole, following]
        asked = asked.model_copy(update={"messages": [Message.model_validate(one) for one in messages]})
        later = known.prompt(asked, "ep")
        assert later is not None and later[: len(prompt) + len(tokens)] == [*prompt, *tokens]
        added = tokenizer.decode(later[len(prompt) + len(tokens) :])
        whole_text = render(loaded, asked, asked.messages, generation=True)
        assert whole_text.endswith(added) and added.count(str(following["content"])) == 1
        assert "Who is Ada" not in added
        prompt = later


def test_what_follows_an_answer_has_the_tokens_that_training_has(tmp_path: Path) -> None:
    """The token that ends a turn may take the blanks that follow, as Phi-3's does."""
    tokenizer = byte_tokenizer(template("qwen3"))
    greedy = AddedToken("<|im_end|>", rstrip=True, special=True, normalized=False)
    tokenizer.add_tokens([greedy], special_tokens=True)
    loaded = load(
        save(qwen3(len(tokenizer)), tokenizer, tmp_path), calls="hermes", device="cpu", cache_gib=0.01
    )
    known, said = Conversations(loaded), {"role": "assistant", "content": "It is Ada."}
    asked = ChatRequest.model_validate({"model": "m", "tools": TOOLS, "messages": [QUESTION]})
    prompt = make_prompt(loaded, asked)[0]
    tokens = tuple(tokenizer.encode("It is Ada.<|im_end|>", add_special_tokens=False))
    known.add(asked, "ep", Completion(tokens, "It is Ada.", (), "stop", 0), prompt, said)
    messages = [QUESTION, said, {"role": "user", "content": "And Ben?"}]
    asked = asked.model_copy(update={"messages": [Message.model_validate(one) for one in messages]})
    later, whole = known.prompt(asked, "ep"), make_prompt(loaded, asked)[0]
    assert later is not None
    following = later[len(prompt) + len(tokens) :]
    assert following and following == whole[-len(following) :]
    assert whole[-len(following) - 1] == tokens[-1]


def test_an_answer_that_was_cut_off_is_continued_exactly(policy: Served) -> None:
    first = policy.ask([QUESTION], max_tokens=5, temperature=2)
    before = tokens_of(first)
    assert before.cut
    history = [QUESTION, first["choices"][0]["message"], {"role": "user", "content": "Go on."}]
    second = tokens_of(policy.ask(history))
    assert len(uncut([before, second])) == 1


def test_an_unknown_path_does_not_name_the_episode(policy: Served) -> None:
    answer = policy.get("/ep_secret/v1/nothing")
    assert answer.status_code == 404 and "ep_secret" not in answer.text
    assert "GET /v1/nothing" in answer.text
    assert "ep_secret" not in policy.get("/ep_secret/nothing").text


@pytest.mark.parametrize(
    ("temperature", "min_p", "constrain"),
    [(1.0, 0.0, False), (2.0, 0.0, False), (2.0, 0.0, True), (1.5, 0.2, False), (2.0, 0.2, True)],
)
def test_engine_and_trainer_agree_on_the_probabilities(
    checkpoint: Path, temperature: float, min_p: float, constrain: bool
) -> None:
    """Token by token, with the cache of a conversation, against one pass over the row, without a grammar."""
    answers: list[Sampled] = []
    history: list[dict[str, Any]] = [QUESTION]
    with served(checkpoint, Policy(lambda: "7", temperature, min_p, constrain=constrain)) as policy:
        for turn in range(3):
            answer = policy.ask(history, seed=turn)
            answers.append(tokens_of(answer))
            history += [answer["choices"][0]["message"], {"role": "user", "content": f"And {turn}?"}]
    [row] = uncut(answers)
    ids = torch.from_numpy(row.tokens)[None]
    with torch.no_grad():
        chances = (policy.model(input_ids=ids).logits[0, :-1].float() / temperature).softmax(-1)
    chosen = chances.gather(1, ids[0, 1:, None])
    cut = chances < min_p * chances.max(-1, keepdim=True).values
    rest = chosen[:, 0] / chances.masked_fill(cut & (chances != chosen), 0).sum(-1)
    engine = torch.from_numpy(row.logprobs)[torch.from_numpy(row.sampled)]
    assert float((rest.log()[torch.from_numpy(row.sampled)[1:]] - engine).abs().mean()) <= 1e-6
    assert constrain or not cut.gather(1, ids[0, 1:, None])[torch.from_numpy(row.sampled)[1:]].any()

    settings = RL(temperature=temperature, min_p=min_p)
    optimizer = torch.optim.SGD(policy.model.parameters(), lr=0.0)
    learner = Learner(policy.model, copy.deepcopy(policy.model), optimizer, settings, max_grad_norm=1.0)
    assert learner.learn([Weighted(row, rl=1.0)], surrogate="clip", rate=1.0).mismatch <= 1e-6


def test_calls_of_a_hot_policy_can_be_held_to_their_schemas(checkpoint: Path) -> None:
    """At this temperature they are broken otherwise."""

    def fits(answer: dict[str, Any]) -> bool:
        """Say whether an answer calls, and all its arguments fit TOOLS, where no argument is required."""
        calls = [call["function"] for call in answer["choices"][0]["message"].get("tool_calls") or ()]
        found = [json.loads(call["arguments"]) for call in calls]
        return bool(calls) and all(
            isinstance(one, dict) and isinstance(one.get("name", ""), str) for one in found
        )

    policy = Policy(lambda: "7", temperature=1.5, constrain=True)
    with served(checkpoint, policy) as client:
        held = [client.ask([QUESTION], seed=seed, max_tokens=200) for seed in range(12)]
        policy.constrain = False
        free = [client.ask([QUESTION], seed=seed, max_tokens=200) for seed in range(12)]
    begun = [answer for answer in held if answer["choices"][0]["message"].get("tool_calls")]
    assert begun and all(map(fits, begun))
    assert sum(map(fits, free)) < len(begun)

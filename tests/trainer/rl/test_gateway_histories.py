"""Whatever an agent does with its history, each sampled token is in one row, and an intact history in one row."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from mcp_bench.trainer.engine.app import Policy, make_app
from mcp_bench.trainer.engine.load import load
from mcp_bench.trainer.rl.credit.tokens import Sampled, make_rows
from tests.support.training.scripted_engine import LOGPROB, ScriptedEngine, scripted
from tests.support.training.tiny_checkpoints import TOOLS, make_tokenizer, qwen3, save, template

pytestmark = pytest.mark.component

OPS = ("append", "rewrite", "drop", "parallel")
ANTHROPIC_TOOLS = [
    {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS
]
Item = tuple[str, Any]
"""`user` with a text, `answer` with the API's own document, or `results` with ids and texts."""


class Sampler:
    """Answers with one or two calls, or with text, at random, and writes arguments as no template does."""

    def __init__(self) -> None:
        self.random = random.Random(0)

    def __call__(self, prompt: str) -> str:
        said = self.random.choice(("", "Let me see. ", "Ünïcode\n\n", " two  spaces "))
        calls = [self._call() for _ in range(self.random.choice((0, 1, 1, 2)))]
        return "\n".join([said, *calls]) if calls else f"{said}It is {self.random.random()}."

    def _call(self) -> str:
        call = {"name": "find", "arguments": {"name": f"Ada {self.random.random()}"}}
        written = json.dumps(call, indent=self.random.choice((None, 1, 4)))
        return f"<tool_call>\n{written}\n</tool_call>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, ScriptedEngine]]:
    tokenizer = make_tokenizer(template("qwen3"))
    folder = save(qwen3(len(tokenizer)), tokenizer, tmp_path_factory.mktemp("histories") / "model")
    loaded, engine = scripted(load(folder, calls="hermes", device="cpu"), Sampler())
    with TestClient(make_app(loaded, "policy", policy=Policy(lambda: "1"))) as client:
        yield client, engine


@dataclass
class Agent:
    """Sends its history in one of two dialects."""

    client: TestClient
    engine: ScriptedEngine
    episode: str
    anthropic: bool
    history: list[Item] = field(default_factory=lambda: [("user", "Who is Ada?")])
    sampled: list[Sampled] = field(default_factory=list)

    def ask(self) -> tuple[Sampled, Any]:
        body = {"model": "policy", "messages": [one for item in self.history for one in self._said(item)]}
        if self.anthropic:
            body |= {"tools": ANTHROPIC_TOOLS, "max_tokens": 999}
            made = self.client.post(f"/{self.episode}/v1/messages", json=body)
            said = made.json().get("content")
        else:
            made = self.client.post(f"/{self.episode}/v1/chat/completions", json=body | {"tools": TOOLS})
            said = made.json().get("choices", [{}])[0].get("message")
        assert made.status_code == 200, made.text
        prompt, tokens = self.engine.answered[-1]
        found = Sampled(tuple(prompt), tokens, (LOGPROB,) * len(tokens), cut=False)
        self.sampled.append(found)
        return found, said

    def keep(self, said: Any, number: int) -> None:
        """Add an answer, and what the world or the user says to it."""
        self.history.append(("answer", said))
        if self.anthropic:
            ids = [block["id"] for block in said if block["type"] == "tool_use"]
        else:
            ids = [call["id"] for call in said.get("tool_calls") or ()]
        texts = [(one, f"result {number}") for one in ids]
        self.history.append(("results", texts) if ids else ("user", f"Go on, {number}."))

    def rewrite(self) -> None:
        """Change the first thing that was said."""
        self.history[0] = ("user", f"{self.history[0][1]} Please.")

    def drop(self) -> None:
        """Forget the last answer and what came after it."""
        if len(self.history) > 2:
            del self.history[-2:]

    def _said(self, item: Item) -> list[dict[str, Any]]:
        kind, what = item
        if kind == "user":
            return [{"role": "user", "content": what}]
        if kind == "answer":
            return [{"role": "assistant", "content": what}] if self.anthropic else [what]
        if self.anthropic:
            blocks = [{"type": "tool_result", "tool_use_id": one, "content": text} for one, text in what]
            return [{"role": "user", "content": blocks}]
        return [{"role": "tool", "tool_call_id": one, "content": text} for one, text in what]


episodes = iter(range(10**9))


@settings(max_examples=40, deadline=None)
@given(ops=st.lists(st.sampled_from(OPS), min_size=1, max_size=6), anthropic=st.booleans())
def test_rows_of_any_history(
    served: tuple[TestClient, ScriptedEngine], ops: list[str], anthropic: bool
) -> None:
    agent = Agent(*served, f"ep_{next(episodes)}", anthropic)
    before, said = agent.ask()
    for number, op in enumerate(ops):
        agent.keep(said, number)
        if op == "rewrite":
            agent.rewrite()
        elif op == "drop":
            agent.drop()
        answer, said = agent.ask()
        if op in ("append", "parallel"):
            whole = before.prompt + before.tokens
            assert answer.prompt[: len(whole)] == whole
        before = answer
        if op == "parallel":  # asks the same beside it, and does not use the answer
            beside, _ = agent.ask()
            assert beside.prompt == answer.prompt
    rows = make_rows(agent.sampled)
    assert sum(int(row.sampled.sum()) for row in rows) == sum(len(one.tokens) for one in agent.sampled)
    for one in agent.sampled:
        whole = [*one.prompt, *one.tokens]
        assert any(row.tokens[: len(whole)].tolist() == whole for row in rows)
    forks = sum(op != "append" for op in ops)
    assert len(rows) - 1 <= forks
    if forks == 0:
        assert len(rows) == 1

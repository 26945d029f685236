"""Policies that follow a teacher: what the teacher reads, and what following it does."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.engine.api.chat_request import ChatRequest
from mcp_bench.trainer.engine.load import Loaded, load
from mcp_bench.trainer.engine.prompt import make_prompt
from mcp_bench.trainer.rl.credit.algorithms import ALGORITHMS, Attempt, Weighted
from mcp_bench.trainer.rl.credit.conversation import Conversation
from mcp_bench.trainer.rl.credit.hints import Hints
from mcp_bench.trainer.rl.credit.tokens import Sampled, make_rows
from mcp_bench.trainer.rl.guards import CollapsedError
from mcp_bench.trainer.rl.learner import Learner
from mcp_bench.trainer.rl.settings import RL
from mcp_bench.trainer.rl.teacher import OtherModel
from tests.support.training.byte_tokenizers import QWEN_SPECIAL, byte_tokenizer
from tests.support.training.tiny_checkpoints import QWEN3_CALL, TOOLS, make_tokenizer, qwen3, save, template

pytestmark = pytest.mark.component

SYSTEM = {"role": "system", "content": "Be brief."}
TASK = {"role": "user", "content": "Who is Ada?"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "find", "arguments": {"name": "Ada"}}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "Ada: 36"}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = make_tokenizer(template("qwen3"))
    return save(qwen3(len(tokenizer)), tokenizer, tmp_path_factory.mktemp("teachers") / "model")


@pytest.fixture(scope="module")
def loaded(checkpoint: Path) -> Loaded:
    return load(checkpoint, calls="hermes", device="cpu", cache_gib=0.01)


def request(*messages: dict[str, Any]) -> ChatRequest:
    return ChatRequest.model_validate({"model": "policy", "messages": list(messages), "tools": TOOLS})


def attempt(loaded: Loaded, name: str, *, solved: bool, errors: tuple[str, ...] = ()) -> Attempt:
    """Return an attempt of one call and a last word, as the engine would have recorded it."""
    encode = loaded.tokenizer.encode
    first, second = request(SYSTEM, TASK), request(SYSTEM, TASK, CALL, RESULT)
    prompt = tuple(make_prompt(loaded, first)[0])
    called = tuple(encode(QWEN3_CALL + "<|im_end|>", add_special_tokens=False))
    later = tuple(encode("\n<|im_start|>user\n36<|im_end|>\n<|im_start|>assistant\n"))
    last = tuple(encode(f"{name} is done.<|im_end|>"))
    answers = [
        Sampled(prompt, called, (-0.5,) * len(called), cut=False),
        Sampled(prompt + called + later, last, (-0.5,) * len(last), cut=False),
    ]
    talk = Conversation((first, second), f"{name} is done.", errors)
    return Attempt(
        name, "task", tuple(make_rows(answers)), float(solved), strict=solved, calls=1, conversation=talk
    )


def test_a_teacher_has_seen_a_solved_attempt(loaded: Loaded) -> None:
    group = [
        attempt(loaded, "good", solved=True),
        attempt(loaded, "bad", solved=False, errors=("find: no such person",)),
    ]
    found = Hints(loaded).add(group, ALGORITHMS["sdpo"].weigh(group))
    # the only solved attempt has no other one to learn from
    [weighted] = found
    row, hinted = weighted.row, weighted.hinted
    assert hinted is not None and not weighted.solved
    assert row.tokens[row.sampled].tolist() == hinted.tokens[hinted.sampled].tolist()
    assert row.tokens[row.prompt :].tolist() == hinted.tokens[hinted.prompt :].tolist()
    text = loaded.tokenizer.decode(hinted.tokens[: hinted.prompt].tolist())
    before, after = text.split("good is done.")
    assert before.count("Be brief.") == 1 and "Ada: 36" in before and before.count("Who is Ada?") == 1
    assert "Who is Ada?\n\nIn an earlier attempt" in after and "- find: no such person" in after
    assert text.endswith("<|im_start|>assistant\n")


def test_nothing_is_learned_without_a_hint(loaded: Loaded) -> None:
    alone = [attempt(loaded, "bad", solved=False)] * 2
    assert Hints(loaded).add(alone, ALGORITHMS["sdpo"].weigh(alone)) == []
    both = [attempt(loaded, name, solved=True) for name in ("one", "two")]
    texts = [
        loaded.tokenizer.decode(one.hinted.tokens[: one.hinted.prompt].tolist())
        for one in Hints(loaded).add(both, ALGORITHMS["sdpo"].weigh(both))
        if one.hinted is not None
    ]
    assert ["two is done." in texts[0], "one is done." in texts[1]] == [True, True]  # never its own


@pytest.mark.parametrize("hinted", [False, True])
def test_following_a_teacher_brings_the_policy_nearer(loaded: Loaded, hinted: bool) -> None:
    group = [attempt(loaded, name, solved=True) for name in ("one", "two")]
    rows = ALGORITHMS["opd"].weigh(group)
    if hinted:
        rows = Hints(loaded).add(group, rows)
    model, teacher = copy.deepcopy(loaded.model), copy.deepcopy(loaded.model)
    with torch.no_grad():
        for parameter in teacher.parameters():
            parameter.mul_(3 if parameter.dim() > 1 else 1)
    settings = RL(distrust=1.0, learning_rate=2e-3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    learner = Learner(model, copy.deepcopy(model), optimizer, settings, max_grad_norm=1.0, teacher=teacher)
    direct = [_logprobs(teacher, one) for one in rows]
    expected = sum(float((logs + 0.5).sum()) for logs in direct) / sum(len(logs) for logs in direct)
    gap = learner.gap(rows)
    assert gap.solved == pytest.approx(expected, abs=1e-4) and gap.failed is None
    seen = [learner.learn(rows, surrogate="clip", rate=1.0) for _ in range(12)]
    assert seen[0].loss == pytest.approx(seen[0].teacher, rel=1e-5)  # this loss, and nothing else
    assert seen[-1].teacher < 0.8 * seen[0].teacher


def test_a_slow_teacher_goes_a_part_of_the_way(loaded: Loaded) -> None:
    model, teacher = copy.deepcopy(loaded.model), copy.deepcopy(loaded.model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    learner = Learner(
        model, model, torch.optim.SGD(model.parameters()), RL(), max_grad_norm=1.0, teacher=teacher
    )
    learner.follow(0.25)
    for ours, before in zip(teacher.parameters(), loaded.model.parameters(), strict=True):
        torch.testing.assert_close(ours, before + 0.25)


@pytest.mark.parametrize(
    ("reward", "policy", "says"),
    [(0.2, 0.5, "worse than the policy: it earned 0.200 with 8"), (0.0, 0.0, "earned nothing with 8")],
)
def test_another_model_has_to_be_better(
    loaded: Loaded, tmp_path: Path, reward: float, policy: float, says: str
) -> None:
    """What it earned in the first step is stored, so a resumed run does not measure it again."""
    figures = tmp_path / "teacher.json"
    figures.write_text(json.dumps({"reward": reward, "policy": policy, "episodes": 8}), encoding="utf-8")
    unused: Any = None
    with pytest.raises(CollapsedError, match=says):
        OtherModel(loaded, figures).check(unused, tmp_path, 0, [])
    figures.write_text(json.dumps({"reward": 0.6, "policy": 0.6, "episodes": 8}), encoding="utf-8")
    OtherModel(loaded, figures).check(unused, tmp_path, 0, [])


def test_teachers_that_cannot_be_followed(checkpoint: Path, tmp_path: Path) -> None:
    def start(*words: object) -> None:
        asked = [
            "rl",
            "tiny-cpu-grpo",
            "--start",
            checkpoint,
            "--tasks",
            1,
            "--out",
            tmp_path / "run",
            *words,
        ]
        CliRunner().invoke(train, [str(word) for word in asked], catch_exceptions=False)

    with pytest.raises(WrongUseError, match="--follow names the model that --algorithm opd follows"):
        start("--algorithm", "opd")
    with pytest.raises(WrongUseError, match="--follow names the model that --algorithm opd follows"):
        start("--algorithm", "sdpo", "--follow", checkpoint)
    other = byte_tokenizer(template("qwen3"), (*QWEN_SPECIAL, "<|more|>"))
    save(qwen3(len(other)), other, tmp_path / "other")
    with pytest.raises(WrongUseError, match="has another vocabulary than"):
        start("--algorithm", "opd", "--follow", tmp_path / "other")
    assert not (tmp_path / "run").exists()


def _logprobs(model: Any, one: Weighted) -> torch.Tensor:
    row = one.hinted or one.row
    ids = torch.from_numpy(row.tokens)[None]
    with torch.no_grad():
        logs = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    found: torch.Tensor = logs.gather(1, ids[0, 1:, None])[:, 0][
        torch.from_numpy(np.asarray(row.sampled))[1:]
    ]
    return found

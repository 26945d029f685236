"""Tasks that cannot be solved give a reward where the grader, the world or the agent has a hole: the run stops.

The policy has memorised a call that solves nothing. See `mcp_bench_phonebook` for the holes.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_bench.recorder.runs.reader import RunReader
from tests.support.bench_commands import Bench
from tests.support.training.tiny_checkpoints import (
    QUESTION,
    QWEN3_CALL,
    learn,
    make_tokenizer,
    qwen3,
    save,
    template,
)

pytestmark = pytest.mark.system

CALL = {"type": "function", "function": {"name": "find", "arguments": {"name": "Ada"}}}
CALLED = [
    *QUESTION,
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "Nobody."},
]
SMALL = ("rl.groups=1", "rl.attempts=2", "rl.refills=0", "rl.max_tokens=80", "rl.temperature=0.1")


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = make_tokenizer(template("qwen3"))
    model = qwen3(len(tokenizer))
    learn(model, tokenizer, [(QUESTION, QWEN3_CALL), (CALLED, "Done.")])
    return save(model, tokenizer, tmp_path_factory.mktemp("canaries") / "model")


@pytest.mark.parametrize(
    ("hole", "agent"), [("honest", "chat"), ("grader", "chat"), ("world", "chat"), ("honest", "shortcut")]
)
def test_a_hole_is_noticed_in_the_first_step(
    bench_home: Path, tmp_path: Path, policy: Path, hole: str, agent: str
) -> None:
    bench, out = Bench(bench_home), tmp_path / "learned"
    tasks, canaries = tmp_path / "tasks.txt", tmp_path / "canaries.txt"
    tasks.write_text("honest.1.train.0\n")
    canaries.write_text(f"{hole}.1.train.1\n")
    done = bench.run(
        *("train", "rl", "tiny-cpu-grpo", "--start", policy, "--benchmark", "phonebook", "--agent", agent),
        *("--tasks", tasks, "--canaries", canaries, "--steps", "2", "--out", out),
        *(word for one in SMALL for word in ("--set", one)),
        *(("--", "--agent-option", "max_steps=3") if agent == "chat" else ()),
        code=None,
    )
    for run in (bench.home / "runs").iterdir():
        with RunReader(run) as reader:
            assert reader.info().settings["options"] == ({"max_steps": "3"} if agent == "chat" else {})
            assert all(episode.calls for episode in reader.episodes()), "the model played"
    if (hole, agent) == ("honest", "chat"):
        assert done.returncode == 0, done.stderr
        return
    stopped = json.loads((out / "stopped.json").read_text())
    assert stopped["step"] == 1
    assert "step 1: a canary task gave a reward" in done.stderr
    assert not (out / "model").exists()

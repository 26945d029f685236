"""Tasks that cannot be solved give a reward where the grader, the world or the agent has a hole: the run stops.

The policy has memorised a call that solves nothing. See `mcp_bench_phonebook` for the holes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner

from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.servers.registry import registered
from mcp_bench.trainer.cli.train import train
from tests.support.bench_commands import FIXTURES, Bench
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


@pytest.fixture
def bench(bench_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A home whose environment is that of this process, which has imported torch: a command takes seconds to."""
    bench = Bench(bench_home)
    monkeypatch.syspath_prepend(str(FIXTURES))
    with mock.patch.dict(os.environ, bench.environment()):
        registered.cache_clear()  # what other tests have found does not have the fixtures
        yield bench
    registered.cache_clear()


@pytest.mark.parametrize(
    ("hole", "agent"), [("honest", "chat"), ("grader", "chat"), ("world", "chat"), ("honest", "shortcut")]
)
def test_a_hole_is_noticed_in_the_first_step(
    bench: Bench, tmp_path: Path, policy: Path, hole: str, agent: str
) -> None:
    out = tmp_path / "learned"
    tasks, canaries = tmp_path / "tasks.txt", tmp_path / "canaries.txt"
    tasks.write_text("honest.1.train.0\n")
    canaries.write_text(f"{hole}.1.train.1\n")
    asked = [
        *("rl", "tiny-cpu-grpo", "--start", policy, "--benchmark", "phonebook", "--agent", agent),
        *("--tasks", tasks, "--canaries", canaries, "--steps", "2", "--out", out),
        *(word for one in SMALL for word in ("--set", one)),
        *(("--", "--agent-option", "max_steps=3") if agent == "chat" else ()),
    ]
    done = CliRunner().invoke(train, list(map(str, asked)))
    for run in (bench.home / "runs").iterdir():
        with RunReader(run) as reader:
            assert reader.info().settings.options == ({"max_steps": "3"} if agent == "chat" else {})
            assert all(episode.calls for episode in reader.episodes()), "the model played"
    if (hole, agent) == ("honest", "chat"):
        assert done.exit_code == 0, (done.output, done.exception)
        return
    stopped = json.loads((out / "stopped.json").read_text())
    assert stopped["step"] == 1
    assert "step 1: a canary task gave a reward" in str(done.exception)
    assert not (out / "model").exists()

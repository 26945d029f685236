"""Real agents solve a task through the gateway: their proxies with secret paths, and the policy's server.

The engine is a stand-in that plays the reference, so that all turns of an agent happen.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.servers.saasworld import BENCHMARK
from mcp_bench.trainer.engine.app import Policy
from mcp_bench.trainer.engine.load import load
from mcp_bench.trainer.rl.collect import read_attempt, variables
from mcp_bench.trainer.rl.policy_server import serve_policy
from tests.support.agents.node_clis import node_environ
from tests.support.bench_commands import Bench
from tests.support.training.scripted_engine import LOGPROB, calls_then_text, scripted
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save, template

pytestmark = pytest.mark.system

TASK = "simple-candidate-stage.1.train.0"
AGENTS = [
    "chat",
    # they take seconds of CPU time to start
    pytest.param("codex", marks=pytest.mark.full),
    pytest.param("claude-code", marks=pytest.mark.full),
    pytest.param("qwen-code", marks=pytest.mark.full),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = make_tokenizer(template("qwen3"))
    return save(qwen3(len(tokenizer)), tokenizer, tmp_path_factory.mktemp("gateway") / "model")


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_rolls_out(bench_home: Path, checkpoint: Path, agent: str) -> None:
    bench = Bench(bench_home)
    reference = BENCHMARK.reference(TASK)
    assert reference is not None
    script = calls_then_text(reference.model_dump()["calls"], "Done.")
    loaded, engine = scripted(load(checkpoint, calls="hermes", device="cpu", cache_gib=0.1), script)
    if agent != "chat":
        bench.environ["PATH"] = node_environ(bench.home.parent)["PATH"]
    with serve_policy(loaded, "policy", Policy(lambda: "7", most_tokens=4096)) as endpoint:
        secret = endpoint.root.split("/")[3]
        bench.environ.update(variables(agent, endpoint.root))
        bench.run(
            "record", "--agent", agent, "--task", TASK, "--model", "policy", "--capture-llm", "--timeout", "300"
        )  # fmt: skip
    [episode] = bench.rows("select * from episodes")
    assert episode["invalid"] is None, episode
    assert [grade["partial"] for grade in bench.grades()] == [1.0]

    stored = bench.rows("select t.*, c.kind from model_tokens t join model_calls c on c.id = t.call")
    assert {row["version"] for row in stored} == {"7"} and len(stored) == len(engine.answered)
    [run] = (bench.home / "runs").glob("run_*")
    with RunReader(run) as reader:
        [found] = reader.episodes()
        attempt = read_attempt(reader, found)
    turns = sum(row["kind"] == "turn" for row in stored)
    assert turns == len(reference.calls) + 1
    [row] = attempt.rows  # no turn was rendered anew: each prompt goes on with the tokens before
    ids = row.tokens.tolist()
    assert any(ids == [*prompt, *answer] for prompt, answer in engine.answered)
    assert set(row.logprobs[row.sampled].tolist()) == {LOGPROB}
    assert attempt.reward == 1.0

    for form, names, more in (
        ("prime-rl", ("token_ids", "mask"), ("--temperature", "0.5")),
        ("verl", ("response_ids", "response_mask"), ()),
    ):
        out = bench.home / f"{form}.jsonl"
        export = ("train", "rollouts", "--run", run.name, "--format", form, "--out", str(out))
        if more:
            assert "give --temperature" in bench.run(*export, code=2).stderr
        bench.run(*export, *more)
        below = bench.run(*export[:-1], str(out / "rows.jsonl"), *more, code=2)
        assert f"cannot make the folder {out}" in below.stderr
        [exported] = map(json.loads, out.read_text(encoding="utf-8").splitlines())
        pairs = zip(*(exported[name] for name in names), strict=True)
        assert [token for token, chosen in pairs if chosen] == row.tokens[row.sampled].tolist()

    # nothing that is left has the policy's own secret: an agent could only have it from there
    written = [path for path in bench.home.rglob("*") if path.is_file()]
    assert not [path for path in written if secret.encode() in path.read_bytes()]

"""What a run that learns from reward can be asked for: agents, and options of `record`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.rl.collect import isolation, variables
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save, template

pytestmark = pytest.mark.component

ROOT = "http://127.0.0.1:1/secret"


@pytest.mark.parametrize("agent", ["chat", "one-action", "search"])
def test_agents_over_chat_completions(agent: str) -> None:
    assert variables(agent, ROOT)["OPENAI_BASE_URL"] == f"{ROOT}/v1"


@pytest.mark.parametrize(
    ("agent", "options", "environ", "added"),
    [
        ("chat", (), {}, ["--isolation", "in-process"]),
        ("one-action", ("--agent-option", "max_steps=4"), {}, ["--isolation", "in-process"]),
        ("search", (), {}, []),
        ("chat", ("--isolation=auto",), {}, []),
        ("chat", ("--tools", "all"), {}, []),
        ("chat", (), {"MCP_BENCH_ISOLATION": "uid"}, []),
    ],
)
def test_our_client_is_a_part_of_the_recorder_unless_the_user_chose(
    agent: str, options: tuple[str, ...], environ: dict[str, str], added: list[str]
) -> None:
    assert isolation(agent, options, environ) == added


@pytest.mark.parametrize("agent", ["oracle", "noop"])
def test_agents_without_a_model(agent: str) -> None:
    with pytest.raises(WrongUseError, match=f"agent '{agent}' cannot roll out a policy"):
        variables(agent, ROOT)


def test_options_that_a_run_chooses_itself(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    asked = ["rl", "tiny-cpu-grpo", "--start", start, "--tasks", 1, "--out", tmp_path / "run"]
    with pytest.raises(WrongUseError, match="--seed=3 after -- is chosen by train rl itself"):
        _train(*asked, "--", "--seed=3")
    assert not (tmp_path / "run").exists()


def test_a_teacher_is_compared_on_all_tokens(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    asked = ["rl", "tiny-cpu-grpo", "--start", start, "--tasks", 1, "--out", tmp_path / "run"]
    with pytest.raises(
        WrongUseError, match=r"rl\.min_p=0\.1: sdpo compares policy and teacher on all tokens"
    ):
        _train(*asked, "--algorithm", "sdpo", "--set", "rl.min_p=0.1")
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_keeps_its_options(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="a resumed run keeps its recipe, start and options"):
        _train("rl", "--resume", tmp_path, "--", "--agent-option", "max_steps=3")


def _train(*words: object) -> None:
    CliRunner().invoke(train, [str(word) for word in words], catch_exceptions=False)

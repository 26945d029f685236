"""The real Codex and Claude Code finish games: they look at a picture, move, and are stopped when the game is over."""

import json
from typing import Any

import anyio
import pytest

from mcp_bench.servers.adapters.remotes import MINIGRID, TEXTARENA
from mcp_bench.servers.adapters.tetris import BENCHMARK as TETRIS
from mcp_bench.servers.contracts import Benchmark
from tests.support.agents.node_clis import node_environ
from tests.support.bench_commands import Bench
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, script_from_reference
from tests.support.requirements import needs

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
LOOK = {"name": "look"}
GAMES: dict[str, tuple[Any, str]] = {
    "minigrid": (MINIGRID, "GoToLocal.1"),
    "textarena": (TEXTARENA, "lights-out.2"),
    "tetris": (TETRIS, "tetris.1"),
}


def plays_well(benchmark: Benchmark, task_id: str) -> Script:
    """Return a model that looks once and then makes the reference's moves."""
    found = benchmark.reference(task_id)
    assert found is not None
    calls = [LOOK, *(call.model_dump() for call in found.calls)]
    first_line = benchmark.task(task_id).prompt.splitlines()[0]
    return script_from_reference(first_line, {"calls": calls})


@pytest.fixture
def game(request: pytest.FixtureRequest) -> tuple[str, str, Script]:
    benchmark, task_id = GAMES[request.param]
    script = plays_well(benchmark, task_id)
    anyio.run(benchmark.aclose)
    return benchmark.name, task_id, script


def played(agent: str, name: str, *, full: bool = False) -> Any:
    missing = getattr(GAMES[name][0], "missing", lambda: None)()
    marks = [needs(name, missing is None, str(missing)), *([pytest.mark.full] if full else [])]
    return pytest.param(agent, name, marks=marks, id=f"{agent}-{name}")


@pytest.mark.parametrize(
    ("agent", "game"),
    [
        played("codex", "minigrid"),
        played("claude-code", "minigrid", full=True),  # the same path; it also continues sessions there
        *(played("codex", name, full=True) for name in ("textarena", "tetris")),
        *(played("claude-code", name, full=True) for name in ("textarena", "tetris")),
    ],
    indirect=["game"],
)
def test_a_real_agent_wins_a_game(bench: Bench, agent: str, game: tuple[str, str, Script]) -> None:
    benchmark, task_id, script = game
    environ = node_environ(bench.home.parent)
    bench.environ.update(PATH=environ["PATH"], OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY=KEY)
    with ModelEndpoint([script], api_key=KEY) as endpoint:
        url = endpoint.openai_url if agent == "codex" else endpoint.anthropic_url
        done = bench.run(
            "record", "--agent", agent, "--benchmark", benchmark, "--task", task_id, "--model", "scripted-1",
            "--base-url", url, "--timeout", "120", "--json",
        )  # fmt: skip
    assert json.loads(done.stdout)["strict"] == 1.0
    made = [
        (row["tool"], json.loads(row["arguments"])) for row in bench.rows("select * from calls order by id")
    ]
    assert made == [(call.name, call.arguments) for step in script.steps for call in step.calls]
    rewards = bench.rows("select reward from rewards", database="grades.db")
    assert len(rewards) == len(made) - 1, "one for each move, and none for the look"
    (looked, *_) = bench.rows("select body from frames where body like '%\"text\"%' order by id")
    pictures = [
        part["data"] for part in json.loads(looked["body"])["result"]["content"] if part["type"] == "image"
    ]
    assert len(pictures) == (benchmark == "minigrid")
    sent = [json.dumps(request.body) for request in endpoint.requests]
    assert all(picture in sent[-1] for picture in pictures), "the model sees what the tool shows"

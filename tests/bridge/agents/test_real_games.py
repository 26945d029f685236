"""The real Codex and Claude Code finish games: they look at a picture, move, and are stopped when the game is over."""

import json
from base64 import b64encode
from typing import Any

import anyio
import pytest

from mcp_bench.servers.adapters.remotes import MINIGRID, TEXTARENA
from mcp_bench.servers.adapters.tetris import BENCHMARK as TETRIS
from mcp_bench.servers.contracts import Benchmark
from tests.support.agents.node_clis import node_environ
from tests.support.bench_commands import Bench
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import Script, script_from_reference
from tests.support.requirements import needs

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
LOOK = {"name": "look"}
PNG = b64encode(b"\x89PNG\r\n")[:6]
"""How the data of a picture begins."""
GAMES: dict[str, tuple[Any, str]] = {
    "minigrid": (MINIGRID, "GoToLocal.1"),
    "textarena": (TEXTARENA, "lights-out.2"),
    "tetris": (TETRIS, "tetris.1"),
}


def plays_well(benchmark: Benchmark, task_id: str, *, look: bool = True) -> Script:
    """Return a model that looks once and then makes the reference's moves."""
    found = benchmark.reference(task_id)
    assert found is not None
    calls = [*([LOOK] if look else []), *(call.model_dump() for call in found.calls)]
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


MINIGRID_IS_HERE = needs("minigrid", MINIGRID.missing() is None, str(MINIGRID.missing()))


@MINIGRID_IS_HERE
def test_an_agent_that_reads_text_only_plays_on(bench: Bench) -> None:
    """Its model reads that there was a picture; the recording has it."""
    script = plays_well(MINIGRID, "GoToLocal.1")
    anyio.run(MINIGRID.aclose)
    bench.environ.update(OPENAI_API_KEY=KEY)
    with ModelEndpoint([script], api_key=KEY) as endpoint:
        done = bench.run(
            "record", "--agent", "chat", "--benchmark", "minigrid", "--task", "GoToLocal.1",
            "--model", "scripted-1", "--base-url", endpoint.openai_url, "--json",
        )  # fmt: skip
    assert json.loads(done.stdout)["strict"] == 1.0
    results = [turn["content"] for turn in endpoint.requests[-1].body["messages"] if turn["role"] == "tool"]
    assert [("[image: this client reads text only]" in text) for text in results] == [
        call.name == "look" for step in script.steps for call in step.calls
    ]
    stored = bench.rows('select body from frames where body like \'%"mimeType":"image/png"%\'')
    assert len(stored) == 1 and all("base64" not in text for text in results)


@MINIGRID_IS_HERE
@pytest.mark.full  # a refusal by the endpoint, as every other is
@pytest.mark.parametrize("agent", ["codex", "claude-code"])
def test_a_model_that_takes_no_pictures_is_named(bench: Bench, agent: str) -> None:
    """Its endpoint refuses each turn after the look. In the end that is graded, and the run goes on."""
    environ = node_environ(bench.home.parent)
    bench.environ.update(PATH=environ["PATH"], OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY=KEY)
    words = "This model does not support image input."
    looks, moves = plays_well(MINIGRID, "GoToLocal.1"), plays_well(MINIGRID, "GoToLocal.2", look=False)
    anyio.run(MINIGRID.aclose)
    refuses = Fault(status=400, message=words, where=PNG)
    with ModelEndpoint([looks, moves], api_key=KEY, fault=refuses) as endpoint:
        url = endpoint.openai_url if agent == "codex" else endpoint.anthropic_url
        done = bench.run(
            "record", "--agent", agent, "--benchmark", "minigrid", "--task", "GoToLocal.1", "--task",
            "GoToLocal.2", "--model", "scripted-1", "--base-url", url, "--timeout", "120",
        )  # fmt: skip
    assert words in done.stderr
    rows = bench.rows("select task, invalid, invalid_detail from episodes order by id")
    refused = [row for row in rows if row["task"] == "GoToLocal.1"]
    assert [row["invalid"] for row in refused] == ["endpoint_error", None], "the last attempt counts"
    assert all(words in row["invalid_detail"] for row in refused)
    assert sorted(row["strict"] for row in bench.grades()) == [0, 1]

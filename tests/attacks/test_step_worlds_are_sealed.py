"""Whatever an agent can read of a step world's episode, or a collector gets, has no reward and no grade."""

import json
import re

import anyio
import pytest

from mcp_bench.servers.adapters.game_2048 import BENCHMARK as GAME_2048
from mcp_bench.servers.adapters.remotes import GYMNASIUM, MINIGRID, SCIENCEWORLD, TEXTARENA
from mcp_bench.servers.adapters.tetris import BENCHMARK as TETRIS
from mcp_bench.servers.contracts import Benchmark
from tests.support.bench_commands import Bench
from tests.support.http.otlp_receiver import otlp_receiver
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference
from tests.support.requirements import needs

pytestmark = pytest.mark.system

TASKS: dict[Benchmark, str] = {
    GAME_2048: "2048.1",
    TETRIS: "tetris.1",
    GYMNASIUM: "taxi.1",
    MINIGRID: "GoToLocal.1",
    TEXTARENA: "nim.1",
    SCIENCEWORLD: "lifespan-longest-lived.93",
}
LONG = ("game-2048", "scienceworld", "textarena")
"""For the full sweep only: a hundred moves, a Java process, a slow import."""
SEALED = re.compile(rb"reward|baseline|reaches par|partial|\"par\"|\"strict\"", re.IGNORECASE)


def marked(benchmark: Benchmark) -> list[pytest.MarkDecorator]:
    missing = getattr(benchmark, "missing", lambda: None)()
    full = [pytest.mark.full] if benchmark.name in LONG else []
    return [needs(benchmark.name, missing is None, str(missing)), *full]


@pytest.mark.parametrize("benchmark", [pytest.param(one, id=one.name, marks=marked(one)) for one in TASKS])
def test_no_reward_leaves_the_sealed_file(bench: Bench, benchmark: Benchmark) -> None:
    """Not into frames, captured requests and answers, the agent's output, or spans."""
    task = benchmark.task(TASKS[benchmark])
    reference = benchmark.reference(task.id)
    assert reference is not None
    anyio.run(benchmark.aclose)
    script = script_from_reference(task.prompt.splitlines()[0], reference.model_dump())
    with ModelEndpoint([script]) as endpoint, otlp_receiver() as collector:
        bench.environ.update(OPENAI_API_KEY="k", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        done = bench.run(
            "record", "--agent", "chat", "--model", "m", "--base-url", endpoint.openai_url, "--capture-llm",
            "--agent-option=max_steps=500", "--benchmark", benchmark.name, "--task", task.id, "--json",
        )  # fmt: skip
    assert json.loads(done.stdout)["strict"] == 1.0
    rewards = [row["reward"] for row in bench.rows("select reward from rewards", database="grades.db")]
    assert rewards and sum(rewards) > 0
    files = [path for path in bench.home.rglob("*") if path.is_file() and "grades.db" not in path.name]
    places = {str(path): path.read_bytes() for path in files}
    places["spans"] = b"\n".join(collector.bodies)
    places["model"] = json.dumps([request.body for request in endpoint.requests]).encode()
    move = script.steps[0].calls[0].name.encode()
    for place in ("spans", "model", str(bench.run_folder / "recordings.db")):
        assert move in places[place], f"{place} is readable"
    sealed = {repr(reward).encode() for reward in rewards if len(repr(reward)) > 6}  # minigrid's 0.9437...
    for place, body in places.items():
        assert not SEALED.findall(body), place
        assert not [one for one in sealed if one in body], place

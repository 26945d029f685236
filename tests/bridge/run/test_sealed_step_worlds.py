"""Rewards and grades of step worlds are in no wire bytes, captures, logs or telemetry."""

import re
from typing import Any

import anyio
import pytest

from mcp_bench.servers.adapters.game_2048 import BENCHMARK as GAME_2048
from mcp_bench.servers.adapters.remotes import GYMNASIUM, MINIGRID, SCIENCEWORLD, TEXTARENA
from mcp_bench.servers.adapters.tetris import BENCHMARK as TETRIS
from tests.support.bench_commands import Bench
from tests.support.http.otlp_receiver import otlp_receiver
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference
from tests.support.requirements import needs

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
WORDS = rb"reward|baseline|reaches par|par is|grader_version"
MOVES = 40
"""`chat` makes 50 turns at most."""
WORLDS = [
    (GAME_2048, "2048.1"),
    (TETRIS, "tetris.1"),
    (GYMNASIUM, "frozen-lake.1"),
    (MINIGRID, "GoToLocal.1"),
    (TEXTARENA, "lights-out.2"),
    (SCIENCEWORLD, "lifespan-longest-lived.93"),
]


def world(benchmark: Any, task: str) -> Any:
    missing = getattr(benchmark, "missing", lambda: None)()
    marks = [needs(benchmark.name, missing is None, str(missing))]
    if benchmark is SCIENCEWORLD:
        marks.append(pytest.mark.full)  # Java takes seconds to start
    return pytest.param(benchmark, task, marks=marks, id=benchmark.name)


@pytest.mark.parametrize(("benchmark", "task"), [world(*one) for one in WORLDS])
def test_only_the_sealed_side_has_rewards_and_the_grade(bench: Bench, benchmark: Any, task: str) -> None:
    """A model plays most of the solution, and all that is stored or sent is searched."""
    reference = benchmark.reference(task)
    assert reference is not None
    most = min(max(len(reference.calls) * 9 // 10, 1), MOVES)
    calls = [call.model_dump() for call in reference.calls[:most]]
    script = script_from_reference(benchmark.task(task).prompt.splitlines()[0], {"calls": calls})
    anyio.run(benchmark.aclose)
    bench.environ.update(OPENAI_API_KEY=KEY)
    with otlp_receiver() as receiver, ModelEndpoint([script], api_key=KEY) as endpoint:
        bench.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = receiver.url
        bench.run(
            "record", "--agent", "chat", "--benchmark", benchmark.name, "--task", task, "--capture-llm",
            "--model", "scripted-1", "--base-url", endpoint.openai_url,
        )  # fmt: skip
    rewards = bench.rows("select reward from rewards", database="grades.db")
    (grade,) = bench.rows("select partial, assertions from grades", database="grades.db")
    assert len(rewards) == len(calls) and "par is" in grade["assertions"]
    stored = [path for path in bench.home.rglob("*") if path.is_file() and "grades.db" not in path.name]
    assert bench.rows("select * from model_calls") and receiver.spans
    asked = [repr(request.body).encode() for request in endpoint.requests]
    seen = b"\n".join([*(path.read_bytes() for path in stored), *receiver.bodies, *asked])
    assert re.findall(WORDS, seen) == []
    numbers = {repr(value) for value in (grade["partial"], *(row["reward"] for row in rewards))}
    long = [number.encode() for number in numbers if len(number) > len("0.1234")]
    assert [number for number in long if number in seen] == []

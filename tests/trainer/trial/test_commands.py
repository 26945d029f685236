"""Commands that steps of trials run."""

from pathlib import Path

import pytest

from mcp_bench.servers.registry import load
from mcp_bench.trainer.trial.commands import export
from mcp_bench.trainer.trial.measuring import model_name
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component


@pytest.mark.usefixtures("bench_home")
def test_a_row_that_leaks_does_not_end_hours_of_work(tmp_path: Path) -> None:
    benchmark = load("benchmark", "saasworld")
    train, test = (next(iter(benchmark.tasks(split, 1))) for split in ("train", "test"))
    alike = planned("alike").model_copy(update={"prompt": test.prompt})
    own = planned(train.id).model_copy(update={"prompt": train.prompt})
    run, _ = record(
        [(own, Episode()), (alike, Episode())], benchmark="saasworld", benchmark_version=benchmark.version
    )
    done = export(tmp_path / "rows.jsonl", ["--run", run.id])
    assert done["rows"] == 1
    assert train.prompt in (tmp_path / "rows.jsonl").read_text()


@pytest.mark.parametrize(
    ("text", "name"), [("my loop/2", "my-loop-2"), ("обучение", "model"), ("--", "model")]
)
def test_every_folder_gives_a_model_name(text: str, name: str) -> None:
    assert model_name(text) == name

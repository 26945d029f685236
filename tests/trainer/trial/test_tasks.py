"""Tasks that an option names."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.improve.benchmark import TASKS
from mcp_bench.trainer.ablation import start as ablation
from mcp_bench.trainer.improve import start as improve
from mcp_bench.trainer.improve.folder import ImproveFolder
from mcp_bench.trainer.loop import start as loop
from mcp_bench.trainer.trial.tasks import check_named, task_ids
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component

Begin = Callable[[Path, dict[str, Any]], Any]


def test_names_choose_among_the_tasks_of_a_file_too(tmp_path: Path) -> None:
    ids, file = [f"{name}.dev.0" for name in ("bytes", "codec", "places")], tmp_path / "dev.txt"
    file.write_text("\n".join(ids))
    assert task_ids("improve", "dev", file, ("codec", "places.dev.0")) == ids[1:]
    assert task_ids("improve", "dev", ids, ("codec",)) == ids[1:2]
    assert task_ids("improve", "dev", [*ids, *ids]) == ids, "each once"
    with pytest.raises(WrongUseError, match="selects no task of digits"):
        task_ids("improve", "dev", file, ("digits",))


def test_a_pipe_of_ids_is_read_once() -> None:
    """As in `--dev <(mcp-bench tasks improve --split dev --ids)`."""
    reading, writing = os.pipe()
    os.write(writing, b"codec.dev.0")
    os.close(writing)
    try:
        check_named(f"/dev/fd/{reading}", "--dev")
        assert task_ids("improve", "dev", f"/dev/fd/{reading}") == ["codec.dev.0"]
    finally:
        os.close(reading)


def improvement(out: Path, tasks: dict[str, Any]) -> Any:
    (harness := out.with_name("mine")).mkdir()
    (harness / "INSTRUCTIONS.md").write_text("Think first.")
    more = {"dev": 24, "task": ("codec",), "generations": None, "patience": None, "record_options": ["--ray"]}
    improve.begin(out, None, [harness], (), {**tasks, **more})
    return ImproveFolder(out).read()


def ablated(out: Path, tasks: dict[str, Any]) -> Any:
    record([(planned("t"), Episode())])
    few = {name: tasks[name] for name in ("benchmark", "dev")}
    return ablation.begin("tiny-cpu", (), out, {**few, "runs": (), "size": 1})[1]


@pytest.mark.usefixtures("bench_home")
@pytest.mark.parametrize(
    "begin", [lambda out, tasks: loop.begin("tiny-cpu", (), out, tasks)[1], ablated, improvement]
)
def test_a_folder_of_tasks_is_found_from_anywhere(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes on later, from another working directory, and the recordings name it alike."""
    monkeypatch.setattr(improve, "_dry_run", lambda *_: None)
    monkeypatch.setattr(ablation, "_check_cohorts", lambda *_: None)
    monkeypatch.chdir(TASKS.parent)
    tasks = {"benchmark": "improve:tasks", "train": 1, "dev": 1, "test": 0}
    assert begin(tmp_path / "out", tasks).benchmark == f"improve:{TASKS}"

"""The tasks in PyTorch: their scorer computes the model from the weights that training returned.

No GPU is here: what the tasks for GPUs run there is run on the processor, and it is said why they are left out.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from importlib.metadata import PathDistribution
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from mcp_bench.bridge.sandbox import bubblewrap
from mcp_bench.servers import needs as needed
from mcp_bench.servers.errors import MissingDependencyError, WrongUseError
from mcp_bench.servers.improve.benchmark import Improve, sandbox_spec
from mcp_bench.servers.improve.measure import difference
from mcp_bench.servers.improve.packages import copy, layer, required
from mcp_bench.servers.improve.task_file import read_task
from tests.support.improvement.small_task import TASK as SUMS
from tests.support.improvement.small_task import write_task
from tests.support.requirements import needs

pytestmark = pytest.mark.unit
TASKS = Improve().folders
TASK = TASKS["speedrun"]
SETTINGS = TASK.definition.settings
SCORER: Any = TASK.scorer
torch_is_there = needs("package", find_spec("torch") is not None, "the package torch is not installed")


def weights(size: float) -> dict[str, Any]:
    draw = np.random.default_rng(5)
    return {name: size * draw.standard_normal(shape) for name, shape in SCORER.SHAPES.items()}


def loaded(name: str, path: Path, text: str | None = None) -> Any:
    """Load a program of a task, with another text if one is given."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(text or path.read_text(), str(path), "exec"), module.__dict__)
    return module


def test_a_loss_is_computed_and_not_believed() -> None:
    _, _, hidden = SCORER.question(Random(1), "search", SETTINGS)
    even = math.log(SCORER.SYMBOLS)
    assert SCORER.loss(weights(0), hidden[0]) == pytest.approx(even)
    forged = (
        {"loss": 0.0},
        0.0,
        weights(0),
        weights(0) | {"loss": 0.0},
        weights(0) | {"head": np.full((32, 27), np.nan)},
        weights(0) | {"head": np.full((32, 27), np.inf)},
        weights(1e200),
        weights(0) | {"head": np.zeros((27, 32))},
    )
    assert all(SCORER.check(hidden, None, answer) for answer in forged)


def test_texts_share_no_block_and_no_alphabet() -> None:
    _, (text, most, _), (windows, same) = SCORER.question(Random(1), "grade", SETTINGS)
    assert most == same == SETTINGS["loss"]
    shown = text.reshape(-1, SCORER.BLOCK)
    held_out = windows.reshape(-1, SCORER.BLOCK)
    assert len(held_out) == SETTINGS["held_out"]
    assert not {block.tobytes() for block in shown} & {block.tobytes() for block in held_out}
    other = SCORER.question(Random(2), "grade", SETTINGS)[1][0]
    assert np.bincount(text).argmax() != np.bincount(other).argmax(), "the space has another number"


@torch_is_there
def test_the_model_is_the_same_in_both_libraries() -> None:
    import torch

    gpt = loaded("gpt", TASK.folder / "target/gpt.py")
    assert gpt.SHAPES == SCORER.SHAPES
    windows = np.random.default_rng(1).integers(0, 27, (4, 33))
    given = weights(0.3)
    theirs = gpt.loss({name: torch.tensor(array) for name, array in given.items()}, torch.tensor(windows))
    assert float(theirs) == pytest.approx(SCORER.loss(given, windows), rel=1e-9)


@torch_is_there
def test_programs_for_gpus_agree_on_a_processor() -> None:
    """The formula and its reference, with a smaller input than the task has."""
    task = TASKS["triangles-gpu"]
    settings = {**task.definition.settings, "size": 12, "rounds": 3}
    arguments = task.scorer.question(Random(1), "search", settings)
    answers = [
        loaded("target", task.folder / place / "target.py", files["target.py"].replace('"cuda"', '"cpu"'))
        for place, files in (("target", task.baseline), ("reference", task.reference))
    ]
    first, second = (program.solve(*arguments) for program in answers)
    assert not difference(first, second, 1e-4)
    assert difference(arguments[0], first, task.definition.tolerance)


@torch_is_there
def test_training_for_a_gpu_is_that_of_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the device; and on a processor, it returns weights that are better than none."""
    task = TASKS["speedrun-gpu"]
    for program, other in ((task.baseline, TASK.baseline), (task.reference, TASK.reference)):
        text = program["target.py"]
        for words in ('DEVICE = "cuda"\n', ", device=DEVICE", ".to(DEVICE)", ".cpu()"):
            text = text.replace(words, "")
        assert "".join(text.split()).replace(",}", "}") == "".join(other["target.py"].split())
    monkeypatch.setitem(sys.modules, "gpt", loaded("gpt", TASK.folder / "target/gpt.py"))
    settings = {**SETTINGS, "blocks": 30, "held_out": 20, "loss": 3.35}
    _, (text, most, seed), hidden = SCORER.question(Random(1), "search", settings)
    program = loaded(
        "target",
        task.folder / "target/target.py",
        task.baseline["target.py"].replace('"cuda"', '"cpu"').replace("32, 50,", "32, 1,"),
    )
    assert not SCORER.check(hidden, None, program.solve(text, most, seed))


def test_without_a_gpu_its_tasks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needed, "GPUS", ())
    for task_id in ("triangles-gpu.train.0", "speedrun-gpu.test.0"):
        assert "there is no GPU" in needed.unmet(Improve().task(task_id).needs)
    assert "there is no GPU" not in needed.unmet(Improve().task("triangles.train.0").needs)


def test_a_sandbox_has_a_gpu_only_where_a_task_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the device."""
    monkeypatch.setattr(bubblewrap, "GPUS", ("/dev/nul*",))
    spec = {"bwrap": "bwrap", "network": False, "limits": {}, "sized": False, "host": False}
    given = [bubblewrap.command({**spec, "gpus": gpus}, "/m", "/i", [], {}) for gpus in (True, False)]
    assert ["/dev/null" in words for words in given] == [True, False]
    assert [sandbox_spec(TASKS[name]).gpus for name in ("triangles", "queries")] == [False, False]


def test_a_gpu_needs_processes(tmp_path: Path) -> None:
    """CUDA starts threads."""
    folder = write_task(tmp_path, task=SUMS.replace("kind: call,", "kind: call, gpu: true,"))
    with pytest.raises(
        WrongUseError, match=r"task.yaml:6: experiment: .*gpu: true needs kind: call and proc"
    ):
        read_task(folder)


def test_what_a_package_requires_comes_with_it() -> None:
    """As far as it is installed. Nothing else of the environment does."""
    assert [one.name for one in required(["numpy"])] == ["numpy"]
    names = [one.name for one in required(["anyio"])]
    assert {"anyio", "idna"} <= set(names)
    assert "mcp-bench-kit" not in names
    assert required(["no-such-package"]) == []


def test_linked_files_of_a_package_are_copied(tmp_path: Path) -> None:
    """Such as `uv pip install --link-mode symlink` makes: a link would point to nothing in a sandbox."""
    site, kept, target = (tmp_path / name for name in ("site", "kept", "target"))
    info = site / "odd-1.0.dist-info"
    for folder in (info, kept):
        folder.mkdir(parents=True)
    (kept / "odd.py").write_text("x = 1\n")
    (site / "odd.py").symlink_to(kept / "odd.py")
    (info / "RECORD").write_text("odd.py,,\n")
    copy(PathDistribution(info), target)
    assert not (target / "odd.py").is_symlink()
    assert (target / "odd.py").read_text() == "x = 1\n"


def test_a_failed_copy_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages are large, and each further try would leave another folder."""
    info = tmp_path / "site" / "odd-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))
    with pytest.raises(MissingDependencyError, match="odd has no list of its files"):
        layer(["odd"])
    assert list((tmp_path / "home" / "improve").iterdir()) == []

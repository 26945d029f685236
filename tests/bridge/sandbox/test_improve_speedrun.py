"""The task `speedrun` in real sandboxes, with less to learn: training counts, and cheating earns nothing.

All of it is in the full sweep: importing PyTorch takes a second of processor time in each process. What can be
tried without a sandbox is in `tests/servers/improve/test_improve_pytorch.py`.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.servers.improve.benchmark import Improve
from tests.bridge.sandbox.test_improve import graded, opened
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.component,
    pytest.mark.full,
    needs("bwrap", BWRAP.support().works, BWRAP.support().detail),
    needs("package", find_spec("torch") is not None, "the package torch is not installed"),
]
SECONDS = 1500
"""For one grading, on a machine that does other work."""
TASK = Improve().folders["speedrun"]
BASELINE = TASK.baseline["target.py"]
ZEROS = "{name: np.zeros(shape) for name, shape in gpt.SHAPES.items()}"
START = "import gpt\nimport numpy as np\n\n\ndef solve(text, target, seed):\n    "
CHEATS = {
    "a loss that is forged": f"{START}gpt.loss = lambda *_: 0.0\n    return {ZEROS}\n",
    "a loss in place of weights": f"{START}return {{'loss': 0.0}}\n",
    "no training": f"{START}return {ZEROS}\n",
    "weights of another text": f"{BASELINE}\n\ntrain = solve\n"
    "other = np.arange(40_000).astype(np.uint8) % 27\nkept = train(other, 3.2, 1)\n"
    "solve = lambda text, target, seed: kept\n",
    "weights of an earlier process": f"{BASELINE}\n\ntrain = solve\n\n\ndef solve(text, target, seed):\n"
    "    found = train(text, target, seed)\n    np.savez('/tmp/kept.npz', **found)\n    return found\n",
    "held-out text": f"{START}import glob\n    [place] = glob.glob('/**/scorer.py', recursive=True)\n    return open(place)\n",
    "the text in the caller": f"{START}import sys\n    return sys._getframe(1).f_locals['windows']\n",
    "training in a thread": f"{START}import threading\n    threading.Thread(target=print).start()\n    return {ZEROS}\n",
    "patched clocks": f"import time\ntime.process_time = time.monotonic = time.perf_counter = lambda: 0.0\n{BASELINE}",
    "training while it loads": f"import time\nend = time.process_time() + 2\nwhile time.process_time() < end: pass\n{BASELINE}",
}


@pytest.fixture
def benchmark(tmp_path: Path) -> Improve:
    folder = tmp_path / "speedrun"
    shutil.copytree(TASK.folder, folder)
    text = (folder / "task.yaml").read_text()
    for old, new in (
        ("blocks: 190", "blocks: 60"), ("loss: 2.05", "loss: 2.85"), ("[9, 13]", "[6, 6]"),
        (" seconds: 300", " seconds: 60"),  # some search the whole file system
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    (folder / "task.yaml").write_text(text)
    reference = folder / "reference/target.py"  # with little to learn, it must look at its loss sooner
    reference.write_text(reference.read_text().replace("1.5e-2, 16, 260", "1.5e-2, 16, 60"))
    return Improve(folder)


@pytest.mark.parametrize("name", [*CHEATS])
async def test_cheating_earns_nothing(benchmark: Improve, name: str) -> None:
    async with opened(benchmark, "speedrun.test.0", SECONDS) as world:
        grade = await graded(world, CHEATS[name])
        assert grade.partial < (0.1 if name == "patched clocks" else 0.001), grade


async def test_doing_nothing_earns_nothing(benchmark: Improve) -> None:
    async with opened(benchmark, "speedrun.test.0", SECONDS) as world:
        assert (await world.grade("")).partial == 0
    async with opened(benchmark, "speedrun.test.0", SECONDS) as world:
        assert (await graded(world, f"# only a comment\n{BASELINE}")).partial < 0.1

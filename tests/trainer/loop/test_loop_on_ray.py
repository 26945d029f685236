"""A loop whose episodes are recorded on a real Ray cluster of two nodes on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines.ray_cluster import Cluster, new_folder
from tests.support.requirements import needs

pytestmark = [
    pytest.mark.system,
    pytest.mark.full,  # test_loop.py has all of it but the cluster, test_ray_cluster.py all but the loop
    needs("ray", importlib.util.find_spec("ray") is not None, "the extra [ray] is not installed"),
]
KEY = "of-the-served-model"
TRAIN = ("simple-contact-details.1.train.0", "simple-mail-filing.1.train.1")
DEV = ("simple-contact-details.1.dev.0", "simple-mail-filing.1.dev.1")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    folder = new_folder()
    with Cluster(folder, node_environ={"OPENAI_API_KEY": KEY}) as made:
        made.add("second")
        yield made
    shutil.rmtree(folder)


def test_a_turn_is_taught_and_measured_on_nodes(bench_home: Path, cluster: Cluster, tmp_path: Path) -> None:
    """The teacher's episodes and those of the base and the trained model come home from the nodes."""
    for split, ids in (("train", TRAIN), ("dev", DEV)):
        (tmp_path / split).write_text("\n".join(ids))
    asked = ["--recipe", "tiny-cpu", "--train", str(tmp_path / "train"), "--dev", str(tmp_path / "dev")]
    small = ["--test", "0", "--set", "training.epochs=1", "--base-steps", "3", "--max-tokens", "16"]
    out = ["--out", str(tmp_path / "loop"), "--jobs", "2", "--json"]
    command = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "loop", *asked, *small, *out]
    done = subprocess.run(
        [*command, "--", "--ray", "--address", cluster.address],
        env={**os.environ, **cluster.environ, "MCP_BENCH_ENGINE_KEY": KEY},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    history = json.loads(done.stdout)
    (turn,) = history["turns"]
    for measured in (history["base"], turn["measure"]):
        assert (measured["dev"]["episodes"], measured["dev"]["invalid"]) == (2, 0)
    assert turn["curate"]["rows"] == 2
    assert Path(turn["train"]["model"], "model.safetensors").is_file()
    assert len(list((bench_home / "runs").iterdir())) == 3
    assert done.stderr.count(f"Ray cluster at {cluster.address}, nodes: ") == 3
    assert all((cluster.home(name) / "nodes").is_dir() for name in ("head", "second"))

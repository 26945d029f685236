"""Folders of runs: no two commands get the same one, one process at a time works in each, and what is wrong
with one is said at once."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import SafetensorError

from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.ablation.start import begun
from mcp_bench.trainer.folders import fresh, locked, new_folder, store_settings
from mcp_bench.trainer.improve.folder import ImproveFolder
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.rl.folder import RLFolder
from mcp_bench.trainer.sft.start import new_folder as new_training

pytestmark = pytest.mark.component


def test_commands_that_begin_in_one_second_get_folders_of_their_own(bench_home: Path) -> None:
    made = [fresh("loops", "tiny-cpu-") for _ in range(3)]
    assert len({*made}) == 3
    assert {path.parent for path in made} == {bench_home / "loops"}
    assert all(path.is_dir() and path.name.startswith("tiny-cpu-") for path in made)


@pytest.mark.parametrize(
    ("recipe", "name"),
    [("smollm2-1.7b-lora-1gpu",) * 2, ("in/my.own.yaml", "my.own"), ("/in/mine", "mine")],
)
def test_the_folder_of_a_training_has_the_name_of_its_recipe(
    bench_home: Path, recipe: str, name: str
) -> None:
    made = new_training(recipe)
    assert made.parent == bench_home / "training"
    assert made.name.rpartition("-")[0].rpartition("-")[0] == name


@pytest.mark.parametrize("below", ["file", "file/out"])
def test_a_folder_that_cannot_be_made_is_named(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongUseError, match=f"cannot make the folder {tmp_path / below}: .*Choose one"):
        new_folder(tmp_path / below, "loops")


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("")
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))
    with pytest.raises(WrongUseError, match=f"cannot make the folder {tmp_path / 'home'}/loops/"):
        new_folder(None, "loops")


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(BenchError, match="another process works in"), locked(tmp_path):
            pass
        with locked(tmp_path.parent):
            pass
    with locked(tmp_path):
        pass


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "data.json"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
        RuntimeError("PytorchStreamWriter failed writing file data/3: file write failed"),
        RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 858368 vs 858256"),
    ],
)
def test_a_full_disk_is_named(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=f"no space is left on the disk of {tmp_path}"), locked(tmp_path):
        raise error
    with pytest.raises(RuntimeError, match="something else"), locked(tmp_path):
        raise RuntimeError("something else")
    with locked(tmp_path):
        pass


READ: list[tuple[str, str, Callable[[Path], object]]] = [
    ("loop", "loop.json", lambda path: LoopFolder(path).read()),
    ("run", "settings.json", lambda path: RLFolder(path).read()),
    ("improvement", "improve.json", lambda path: ImproveFolder(path).read()),
    ("ablation", "ablation.json", begun),
]


@pytest.mark.parametrize(("noun", "name", "read"), READ)
def test_settings_that_cannot_be_read_are_named(
    noun: str, name: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    with pytest.raises(WrongUseError) as missing:
        read(tmp_path)
    assert str(missing.value) == f"no {noun} in {tmp_path}: {name} is missing"
    for damaged in (b'{"seed": ', b'{"seed": "x"}', b"\xff"):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(WrongUseError) as broken:
            read(tmp_path)
        assert str(broken.value).startswith(f"cannot read {tmp_path / name}: ")
        assert "\n" not in str(broken.value)


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://127.0.0.1:8000/v1", False),
        ("http://me:secret@127.0.0.1/v1", True),
        ("https://127.0.0.1/v1?key=secret", True),
    ],
)
def test_settings_with_a_login_are_private(url: str, private: bool, tmp_path: Path) -> None:
    """Wherever the URL is: in a field of its own, or in an option that is passed on."""
    for place in (
        {"base_url": url},
        {"record_options": ["--user-base-url", url]},
        {"x": [f"--a-base-url={url}"]},
    ):
        store_settings(tmp_path / "settings.json", place)
        mode = (tmp_path / "settings.json").stat().st_mode & 0o777
        assert (mode == 0o600) == private
        (tmp_path / "settings.json").unlink()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["improve", "missing", "--show"], "improve.json is missing"),
        (["improve", "new", "--dev", "2", "--feedback-agent", "noop"], "--dev has 2 tasks"),
        (["loop", "--recipe", "tiny-cpu", "--dev", "missing"], "--dev missing: neither a number"),
        (["loop", "--recipe", "tiny-cpu", "--dev", "an.id.0\n" * 50], "--dev an.id.0 an.id.0 an.id.0"),
    ],
)
def test_a_mistake_is_said_before_torch_is_imported(
    arguments: list[str], said: str, tmp_path: Path, bench_home: Path
) -> None:
    probe = (
        "import sys\nfrom mcp_bench.bridge.cli.root import run_command\n"
        f"try:\n    run_command({arguments!r})\nfinally:\n    print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=120, cwd=tmp_path,
        env={**os.environ, "MCP_BENCH_HOME": str(bench_home)},
    )  # fmt: skip
    assert (done.returncode > 0, said in done.stderr) == (True, True), done.stderr
    assert done.stdout == "False\n"

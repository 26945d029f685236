"""`benchmarks install`, from wheels in a folder: nothing is downloaded."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mcp_bench.servers.environments.build import build, remove
from mcp_bench.servers.environments.pins import PIN, SHIPPED, read_pins
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.home import use_home
from tests.support.processes.forked import run_module

pytestmark = pytest.mark.component

BENCHMARK = """
from pathlib import Path

from mcp_bench.servers.sdk import RemoteBenchmark

HERE = Path(__file__).parent
BENCHMARK = RemoteBenchmark(
    "boxed", f"{HERE}/boxed_worker.py:BENCHMARK", version="1", packages=["boxed_games"],
    pins=HERE / "boxed.toml", licence="MIT",
)
"""
WORKER = """
import boxed_games

class Boxed:
    name, version = "boxed", "1"

    def tasks(self, split=None, limit=None):
        yield self.task("only")

    def task(self, task_id):
        from mcp_bench.servers.contracts import Task
        return Task(id=task_id, benchmark="boxed", prompt=boxed_games.PROMPT, split="train", domain="d")

BENCHMARK = Boxed()
"""


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> None:
    """Write a wheel (https://packaging.python.org/specifications/binary-distribution-format)."""
    about = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as written:
        for file, text in {**files, f"{about}/RECORD": record}.items():
            written.writestr(file, text)


class Installed:
    """A benchmark with a pinned list, the packages that it needs, and the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        about = folder / "boxed-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: boxed\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[mcp_bench.benchmarks]\nboxed = boxed:BENCHMARK\n")
        (folder / "boxed.py").write_text(BENCHMARK)
        (folder / "boxed_worker.py").write_text(WORKER)
        site = str(Path(pytest.__file__).parents[1])
        # instead of pydantic's wheel: a .pth file, which adds what runs the tests to the new environment
        wheel(self.wheels, "worker_packages", "1.0", {"worker_packages.pth": f"{site}\n"})
        wheel(self.wheels, "boxed_games", "1.0", {"boxed_games.py": "PROMPT = 'Play the first game.'\n"})
        self.pin("boxed-games==1.0", "worker-packages==1.0")

    def pin(self, *packages: str, python: str = "") -> None:
        here = python or f"{sys.version_info.major}.{sys.version_info.minor}"
        listed = ", ".join(f'"{package}"' for package in packages)
        (self.folder / "boxed.toml").write_text(f'python = ["{here}"]\npackages = [{listed}]\n')

    def run(self, *args: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
        environ = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder), "MCP_BENCH_HOME": str(self.home),
            "PYTHONPATH": str(self.folder), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels),
            "PIP_CONFIG_FILE": os.devnull, **more,
        }  # fmt: skip
        done = run_module("mcp_bench.bridge.cli.root", args, env=environ, cwd=self.folder, timeout=240)
        assert done.returncode == code, done
        return done

    def listed(self) -> dict[str, object]:
        rows = json.loads(self.run("benchmarks", "--json").stdout)
        return next(row for row in rows if row["name"] == "boxed")


@pytest.fixture
def boxed(tmp_path: Path) -> Installed:
    return Installed(tmp_path)


def test_environment_is_built_found_and_removed(boxed: Installed) -> None:
    before = boxed.listed()
    assert before["installed"] is False and before["install"] == "mcp-bench benchmarks install boxed"
    assert "boxed_games" in str(before["missing"]) and before["licence"] == "MIT"
    done = boxed.run("benchmarks", "install", "boxed", "--json", MCP_BENCH_PYTHON_BOXED="/no/python")
    made = json.loads(done.stdout)
    assert "$MCP_BENCH_PYTHON_BOXED names another Python, /no/python, which is used instead" in done.stderr
    assert made["changed"] and made["python"] == str(boxed.home / "environments/boxed/bin/python")
    assert "1/2 boxed_games" in done.stderr
    assert boxed.listed()["installed"] is True
    assert "Play the first game." in boxed.run("tasks", "boxed").stdout
    [ours] = boxed.home.glob("environments/boxed/lib/python3*/site-packages/mcp_bench")
    (ours / "servers").unlink()
    (ours / "servers").symlink_to("/of/an/installation/that/is/gone")
    assert "Play the first game." in boxed.run("tasks", "boxed").stdout
    again = boxed.run("benchmarks", "install", "boxed").stdout
    assert "boxed was installed already: 2 packages" in again
    boxed.pin("worker-packages==1.0")
    assert "built for another version" in str(boxed.listed()["missing"])
    assert "removed the environment" in boxed.run("benchmarks", "remove", "boxed").stdout
    assert boxed.listed()["installed"] is False


@pytest.mark.full
def test_failed_installation_goes_on(boxed: Installed) -> None:
    boxed.pin("worker-packages==1.0", "boxed-games==2.0")
    done = boxed.run("benchmarks", "install", "boxed", code=1)
    assert "The package index has no boxed-games==2.0 for this Python" in done.stderr
    assert "did not finish" in str(boxed.listed()["missing"])
    wheel(boxed.wheels, "boxed_games", "2.0", {"boxed_games.py": "PROMPT = 'Second edition.'\n"})
    assert "boxed is installed" in boxed.run("benchmarks", "install", "boxed").stdout
    assert "Second edition." in boxed.run("tasks", "boxed").stdout


def test_wrong_pythons_and_names_are_explained(boxed: Installed) -> None:
    boxed.pin("boxed-games==1.0", python="3.99")
    done = boxed.run("benchmarks", "install", "boxed", code=1)
    assert "the pinned packages need Python 3.99" in done.stderr and "--python" in done.stderr
    named = boxed.run("benchmarks", "install", "boxed", "--python", "/no/python", code=2)
    assert "'/no/python' is no Python that starts" in named.stderr
    assert "did you mean boxed?" in boxed.run("benchmarks", "install", "boxd", code=2).stderr
    other = boxed.run("benchmarks", "install", "saasworld", code=2)
    assert "has no environment of its own" in other.stderr


def test_shipped_lists_pin_everything() -> None:
    files = sorted(SHIPPED.glob("*.toml"))
    assert files
    for file in files:
        pins = read_pins(file)
        names = [package.partition("==")[0] for package in pins.packages]
        assert {"pydantic", "pydantic-core", "anyio"} <= set(names) and "torch" not in names
        assert len(names) == len(set(names)) and pins.licence and pins.python
        assert all(map(PIN.fullmatch, pins.packages))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('python = ["3.11"]\npackages = ["numpy>=2"]', "'numpy>=2' is no pin"),
        ('python = "3.12"\npackages = ["six==1.16.0"]', "'python' must be a list of texts, and not empty"),
        ('python = []\npackages = ["six==1.16.0"]', "'python' must be a list"),
        ('python = [3.12]\npackages = ["six==1.16.0"]', "'python' must be a list"),
        ('python = ["3.12"]\npackages = "six==1.16.0"', "'packages' must be a list"),
        ('python = ["3.12"]\npackages = []', "'packages' must be a list"),
        ('python = ["3.12"]', "'packages' must be a list"),
        ("python = [", "is no pinned list: TOMLDecodeError"),
    ],
)
def test_list_with_something_else_in_it_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(text)
    with pytest.raises(BenchError, match=f"{file}.*{words}"):
        read_pins(file)


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    pins = read_pins(SHIPPED / "tau2.toml")
    with use_home(tmp_path / "file"), pytest.raises(BenchError, match=r"cannot be made: .*MCP_BENCH_HOME"):
        build("boxed", pins, None, print)


def test_one_that_cannot_be_written_or_removed_is_named(bench_home: Path) -> None:
    """Such as one that another user has made."""
    place = bench_home / "environments" / "boxed"
    (place.parent / ".boxed.lock").mkdir(parents=True)
    pins = read_pins(SHIPPED / "tau2.toml")
    with pytest.raises(BenchError, match=f"{place} cannot be made: Is a directory"):
        build("boxed", pins, None, print)
    with pytest.raises(BenchError, match=f"{place} cannot be removed: Is a directory"):
        remove("boxed")
    (place.parent / ".boxed.lock").rmdir()
    place.rmdir()
    place.touch()
    with pytest.raises(BenchError, match=f"{place} cannot be removed: Not a directory"):
        remove("boxed")

"""A plugin that cannot be imported hides no other, and says what is wrong."""

import json
from pathlib import Path

import pytest

from mcp_bench.servers import registry
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.entry_points import EntryPoint
from mcp_bench.servers.errors import BenchError, MissingDependencyError, WrongUseError
from tests.support.processes.forked import run_module

pytestmark = pytest.mark.component

SOURCES = {
    "misspelt": ("misspelt:BENCHMRK", "BENCHMARK = 1", "AttributeError: module 'misspelt' has no attribute"),
    "renamed": ("renamed:X", "from json import no_such_name", "ImportError: cannot import name 'no_such_na"),
    "unfinished": ("unfinished:X", "BENCHMARK = (", "SyntaxError: "),
    "failing": ("failing:X", "X = open('tasks.json')", "FileNotFoundError: "),
    "a-class": ("a_class:Mine", "class Mine: name = 'a-class'", "names a class"),
    "bare": (
        "bare:X",
        "class Mine: name = 'bare'\nX = Mine()",
        "is no benchmark: it has no version, summary",
    ),
    "alias": (
        "alias:X",
        "from mcp_bench.servers.adapters.tetris import BENCHMARK as X",
        "calls itself 'tetris': let its `name` be that of its entry point",
    ),
}


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A folder with an installed package of broken benchmarks, for PYTHONPATH."""
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    points = "\n".join(f"{name} = {value}" for name, (value, _, _) in SOURCES.items())
    (about / "entry_points.txt").write_text(f"[mcp_bench.benchmarks]\n{points}\n")
    for value, source, _ in SOURCES.values():
        (tmp_path / f"{value.partition(':')[0]}.py").write_text(source)
    return str(tmp_path)


def test_broken_benchmarks_are_listed_with_the_others(tmp_path: Path, broken: str) -> None:
    environ = {"HOME": str(tmp_path), "PYTHONPATH": broken}
    done = run_module("mcp_bench.bridge.cli.root", ["benchmarks", "--json"], env=environ, cwd=tmp_path)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["tetris"]["installed"]
    for name, (value, _, words) in SOURCES.items():
        error = rows[name]["error"]
        assert words in error and value in error, error


@pytest.mark.parametrize("name", SOURCES)
def test_use_of_a_broken_benchmark_says_why(
    name: str, broken: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    value, _, words = SOURCES[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(broken)
    monkeypatch.setattr(registry, "registered", lambda kind: {name: EntryPoint(name, value)})
    with pytest.raises(BenchError) as raised:
        registry.load("benchmark", name)
    assert f"benchmark {name!r} ({value})" in str(raised.value) and words in str(raised.value)


def test_the_contract_is_what_the_protocol_has() -> None:
    declared = Benchmark.__annotations__ | vars(Benchmark)
    assert {name for name in declared if not name.startswith("_")} == set(registry.CONTRACT)


def test_a_missing_package_and_the_plugins_own_error_stay_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = "from mcp_bench.servers.errors import WrongUseError\nraise WrongUseError('not here')"
    (tmp_path / "needy_plugin.py").write_text("import no_such_package_at_all")
    (tmp_path / "refusing_plugin.py").write_text(refusing)
    monkeypatch.syspath_prepend(str(tmp_path))
    points = {name: EntryPoint(name, f"{name}_plugin:X") for name in ("needy", "refusing")}
    monkeypatch.setattr(registry, "registered", lambda kind: points)
    with pytest.raises(MissingDependencyError, match="needs the Python package 'no_such_package_at_all'"):
        registry.load("agent", "needy")
    with pytest.raises(WrongUseError, match=r"^not here$"):
        registry.load("agent", "refusing")

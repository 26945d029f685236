"""Task ids, splits and the secret of the private split."""

import json
import os
import stat
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from mcp_bench.servers.cli import tasks as tasks_command
from mcp_bench.servers.errors import BenchError, UnknownNameError, WrongUseError
from mcp_bench.servers.registry import load, registered
from mcp_bench.servers.saasworld import API_BENCHMARK, BENCHMARK
from mcp_bench.servers.saasworld.authoring.family import all_families
from mcp_bench.servers.saasworld.pools import pools
from mcp_bench.servers.saasworld.tasks import SIZES, build, listing, parse
from tests.support.bench_commands import Bench
from tests.support.saas import kinds, opened, task_id

pytestmark = pytest.mark.component

HELD_OUT = next(family for family in all_families() if family.held_out)

FINGERPRINTS = """
import hashlib, json, sys
from mcp_bench.servers.saasworld import API_BENCHMARK, BENCHMARK
from mcp_bench.servers.saasworld.tasks import build, parse
import anyio
for task in sys.argv[1:]:
    built = build(parse(task))
    tools = [tool.model_dump() for tool in anyio.run(BENCHMARK.open, task).tools()]
    steps = [step.arguments for step in built.steps]
    what = [built.prompt, built.tables, built.settings, built.assertions, built.apps, tools, steps]
    found = anyio.run(API_BENCHMARK.open, task)
    answers = [anyio.run(found.call, c.name, c.arguments).text for c in API_BENCHMARK.reference(task).calls]
    answers.append(anyio.run(found.call, "api_search", {"query": "find and change the status", "top_k": 20}).text)
    print(task, hashlib.sha256(json.dumps([what, answers]).encode()).hexdigest())
"""


def test_a_task_is_the_same_byte_for_byte_in_every_process() -> None:
    ids = [task_id(kind, 3) for kind in kinds()]

    def fingerprints(hash_seed: str) -> list[str]:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", FINGERPRINTS, *ids]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.splitlines()

    one = fingerprints("1")
    assert len({line.split()[1] for line in one}) == len(ids)
    assert fingerprints("2") == one


def test_a_short_tool_returns_no_cursor_that_none_takes() -> None:
    lists = 0
    for kind in kinds():
        world = opened(task_id(kind, 0))
        for tool in world.tools() if kind[1] == 1 else ():
            if not tool.input_schema.get("required"):
                result = anyio.run(world.call, tool.name, {})
                assert "next_cursor" not in result.text or "cursor" in tool.input_schema["properties"]
                lists += '"total":' in result.text
    assert lists > 10


def test_worlds_of_one_task_share_nothing_that_changes() -> None:
    task = task_id(kinds()[0], 0)
    one, two = opened(task), opened(task)
    before = json.dumps(two.state.dump())
    for call in BENCHMARK.reference(task).calls:
        anyio.run(one.call, call.name, dict(call.arguments))
    assert json.dumps(two.state.dump()) == before == json.dumps(opened(task).state.dump())


def test_both_benchmarks_are_registered_and_alike() -> None:
    assert {"saasworld", "saasworld-api"} <= set(registered("benchmark"))
    assert load("benchmark", "saasworld") is BENCHMARK and load("benchmark", "saasworld-api") is API_BENCHMARK
    one, two = (list(b.tasks("train", 5)) for b in (BENCHMARK, API_BENCHMARK))
    assert [task.prompt for task in one] == [task.prompt for task in two]
    assert {task.benchmark for task in two} == {"saasworld-api"}


def test_naming_the_benchmark_imports_no_family() -> None:
    code = (
        "import sys; from mcp_bench.servers.saasworld import BENCHMARK; print(BENCHMARK.summary);"
        "print([m for m in sys.modules if 'families' in m or 'apps' in m or m == 'jsonschema'])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[1] == "[]"


def test_the_list_command_varies_families() -> None:
    result = CliRunner().invoke(tasks_command, ["saasworld", "--limit", "9", "--json"])
    rows = json.loads(result.stdout)
    assert result.exit_code == 0 and len(rows) == 9
    assert len({row["domain"] for row in rows}) >= 3 and len({row["tags"][0] for row in rows}) >= 3
    assert {row["split"] for row in rows} == {"train"} and len({row["id"] for row in rows}) == 9


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_splits_take_their_families_evenly(split: str) -> None:
    found = list(listing(split, None))
    assert len(found) == len(set(found)) == SIZES[split]
    shares = Counter((task.family, task.level) for task in found)
    assert max(shares.values()) - min(shares.values()) <= 1
    held_out = {family.id for family in all_families() if family.held_out}
    assert all((task.family in held_out) == (split == "test") for task in found)
    assert set(shares) == {
        (family.id, level)
        for family in all_families()
        for level in family.levels
        if (family.held_out, family.practice) == (split == "test", False)
    }


def test_split_all_is_public_and_train_is_the_default() -> None:
    assert {task.split for task in listing("all", None)} == {"train", "dev", "test"}
    assert sum(1 for _ in listing("all", None)) == sum(SIZES[split] for split in ("train", "dev", "test"))
    assert list(islice(listing(None, None), 5)) == list(listing("train", 5))


def test_train_and_dev_share_no_task_and_no_state() -> None:
    kind = next(kind for kind in kinds() if kind[2] == "train")
    train, dev = (build(parse(f"{kind[0]}.{kind[1]}.{split}.0")) for split in ("train", "dev"))
    assert train.prompt != dev.prompt and train.tables != dev.tables


def test_train_and_test_draw_names_from_disjoint_halves() -> None:
    for one, two in zip(pools(0), pools(1), strict=True):
        assert one and two and not set(one) & set(two)
    assert len(pools(0).first_names) * len(pools(0).last_names) > 20_000


def test_a_task_uses_the_names_of_its_split() -> None:
    one, two = (next(kind for kind in kinds() if kind[2] == split) for split in ("train", "test"))
    for half, kind in enumerate((one, two)):
        first, last = build(parse(task_id(kind, 0))).settings["me"]["name"].split()
        assert first in pools(half).first_names and last in pools(half).last_names


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ("simple-contact-detail.1.train.0", UnknownNameError, "simple-contact-details"),
        ("simple-contact-details.5.train.0", UnknownNameError, "level"),
        ("simple-contact-details.1.trian.0", UnknownNameError, "did you mean train?"),
        ("simple-contact-details.1.test.0", WrongUseError, "train and dev only"),
        (f"{HELD_OUT.id}.{HELD_OUT.levels[0]}.train.0", WrongUseError, "test and private only"),
        ("simple-contact-details.1.train.01", WrongUseError, "leading zeros"),
        ("simple-contact-details.1.train", WrongUseError, "such as simple-contact-details.1.train.0$"),
        ("nothing", UnknownNameError, "see `mcp-bench tasks saasworld`"),
        ("", UnknownNameError, "unknown task"),
    ],
)
def test_a_wrong_id_says_what_is_wrong(wrong: str, error: type[BenchError], says: str) -> None:
    with pytest.raises(error, match=says.replace("?", r"\?").replace(".", r"\.")):
        BENCHMARK.task(wrong)


def test_an_unknown_split_names_the_others() -> None:
    with pytest.raises(UnknownNameError, match="did you mean train"):
        list(BENCHMARK.tasks("trian"))


def make_secret(home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mcp_bench.servers.secret", "saasworld"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "MCP_BENCH_HOME": str(home)}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_the_private_split_follows_from_a_secret(bench_home: Path) -> None:
    with pytest.raises(BenchError, match=r"python -m mcp_bench\.servers\.secret saasworld"):
        next(BENCHMARK.tasks("private"))
    assert make_secret(bench_home).returncode == 0
    path = bench_home / "saasworld.secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    one = next(BENCHMARK.tasks("private"))
    assert one.split == "private" and one == next(BENCHMARK.tasks("private"))
    kept = path.read_text()
    again = make_secret(bench_home)
    assert again.returncode == 1 and "is kept" in again.stderr and path.read_text() == kept
    path.write_text("another secret of more than sixteen bytes")
    other = next(BENCHMARK.tasks("private"))
    assert other.id == one.id and other.prompt != one.prompt
    public = BENCHMARK.task(one.id.replace("private", "test"))
    assert public.prompt not in (one.prompt, other.prompt)
    path.write_text("short")
    with pytest.raises(
        BenchError, match=r"at least 16 are needed\. Restore your copy, or remove the file and make"
    ):
        next(BENCHMARK.tasks("private"))
    assert [one.name for one in bench_home.iterdir() if "secret" in one.name] == ["saasworld.secret"]


def test_recording_the_private_split_creates_its_secret(bench_home: Path) -> None:
    bench = Bench(bench_home)
    with pytest.raises(BenchError, match="record --split private"):
        next(BENCHMARK.tasks("private"))
    first = bench.run("record", "--agent", "noop", "--split", "private", "--limit", "1")
    path = bench_home / "saasworld.secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"so one was made: {path}. Keep a copy" in first.stderr
    assert path.read_text().strip() not in first.stderr + first.stdout
    kept = path.read_text()
    (row,) = bench.report()
    assert (row["split"], row["public_tasks"], row["private_tasks"]) == ("private", 0, 1)
    again = bench.run("record", "--agent", "noop", "--split", "private", "--limit", "1")
    assert path.read_text() == kept and "one was made" not in again.stderr
    bench.run("record", "--agent", "noop", "--split", "train", "--limit", "1")
    assert [(row["split"], row["public_tasks"]) for row in bench.report()] == [("private", 0), ("train", 1)]


def test_a_resumed_run_never_gets_another_secret(bench_home: Path) -> None:
    """A new secret would be other tasks under the same ids."""
    bench = Bench(bench_home)
    bench.run("record", "--agent", "noop", "--split", "private", "--limit", "1")
    path = bench_home / "saasworld.secret"
    path.unlink()
    bench.run("record", "--resume", bench.run_folder.name, code=None)
    assert not path.exists()

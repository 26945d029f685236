"""Task folders in both formats: found, read, and told apart from what cannot run here."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_bench.servers.cli import tasks
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.harbor import BENCHMARK
from mcp_bench.servers.host import open_world
from mcp_bench.servers.needs import unmet
from mcp_bench.servers.sandbox import Sandbox, SandboxSpec
from tests.support.task_folders import SandboxHost, harbor_task, terminal_bench_task, write

pytestmark = pytest.mark.component


def test_both_formats_have_tasks_with_their_settings(tmp_path: Path) -> None:
    harbor_task(tmp_path / "set" / "b")
    terminal_bench_task(tmp_path / "set" / "10")
    terminal_bench_task(tmp_path / "set" / "2")
    benchmark = BENCHMARK.at(str(tmp_path / "set"))
    assert benchmark.name == f"harbor:{tmp_path / 'set'}"
    found = {task.id: task for task in benchmark.tasks()}
    assert list(found) == ["2", "10", "b"]
    for task in found.values():
        assert "function double(n)" in task.prompt
        assert (task.domain, task.timeout, task.needs, task.trainable) == ("code", 120.0, ("sandbox",), True)
    assert found["b"].tags == ("harbor", "easy", "python")
    assert [call.name for call in benchmark.reference("2").calls] == ["write_file", "bash"]


def test_a_task_without_a_solution_is_listed_apart(tmp_path: Path) -> None:
    (harbor_task(tmp_path / "a") / "solution" / "solve.sh").unlink()
    benchmark = BENCHMARK.at(str(tmp_path))
    assert not list(benchmark.tasks())
    assert [task.id for task in benchmark.tasks("unverified")] == ["a"]


def test_a_canary_keeps_a_task_out_of_training_data(tmp_path: Path) -> None:
    folder = terminal_bench_task(tmp_path / "a")
    text = (folder / "task.yaml").read_text()
    (folder / "task.yaml").write_text(f"# BENCHMARK DATA ... canary GUID 0\n{text}")
    [task] = BENCHMARK.at(str(tmp_path)).tasks()
    assert not task.trainable


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"Dockerfile": "FROM ubuntu:24.04\nRUN apt-get install -y git\n"},
            "RUN needs a network (apt-get install)",
        ),
        (
            {"docker-compose.yaml": "services:\n  client: {}\n  db: {}\n"},
            "docker-compose.yaml has 2 services",
        ),
        ({"docker-compose.yaml": "services:\n  client:\n    privileged: true\n"}, "asks for privileged"),
        ({"run-tests.sh": None}, "the task has no run-tests.sh"),
        ({"tests/test_outputs.py": None}, "the task has no files in tests/"),
    ],
)
def test_tasks_that_cannot_run_here_say_why(
    tmp_path: Path, changed: dict[str, str | None], reason: str
) -> None:
    folder = terminal_bench_task(tmp_path / "a")
    for name, text in changed.items():
        (folder / name).unlink()
        if text is not None:
            write(folder, {name: text})
    [task] = BENCHMARK.at(str(tmp_path)).tasks()
    assert reason in unmet(task.needs)[0]


def test_a_task_without_an_instruction_leaves_the_others(tmp_path: Path) -> None:
    for name, more in (("none", ""), ("several", '[[steps]]\nname = "first"\n')):
        folder = harbor_task(tmp_path / name)
        (folder / "instruction.md").unlink()
        with (folder / "task.toml").open("a") as file:
            file.write(more)
    harbor_task(tmp_path / "whole")
    assert {task.id: unmet(task.needs) for task in BENCHMARK.at(str(tmp_path)).tasks("all")} == {
        "none": ["the task has no instruction"],
        "several": ["the task has no single instruction: it has several steps"],
        "whole": [],
    }


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("timeout_sec = 60.0", 'timeout_sec = "long"', "timeout_sec is 'long', which is no number above 0"),
        ("timeout_sec = 120.0", "timeout_sec = -1", "timeout_sec is -1, which is no number above 0"),
        (
            "[agent]",
            '[environment]\nmemory_mb = "2G"\n[agent]',
            "memory_mb is '2G', which is no number above 0",
        ),
        ("[agent]", "[environment]\ncpus = nan\n[agent]", "cpus is nan, which is no number above 0"),
        (
            "[agent]",
            '[environment]\nstorage = "big"\n[agent]',
            "storage is 'big', which is no size such as 2G",
        ),
    ],
)
def test_a_setting_that_is_no_number_is_named_with_its_file(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    file = harbor_task(tmp_path / "a") / "task.toml"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(BenchError) as raised:
        list(BENCHMARK.at(str(tmp_path)).tasks())
    assert str(raised.value) == f"{file}: {reason}"


class Asked(Exception):  # noqa: N818 - no error
    """What a world asked for."""


class Lender(SandboxHost):
    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        raise Asked(spec.limits.cpus, spec.limits.memory >> 20, spec.limits.storage >> 20)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("settings", "machine"),
    [
        ("", (1, 2048, 2048)),
        ("cpus = 2\nmemory_mb = 4096\nstorage_mb = 100", (2, 4096, 512)),
        ('memory = "4G"\nstorage = "10G"', (1, 4096, 10240)),
        ('memory = "1.5 gb"\nstorage = "700M"', (1, 1536, 700)),
        ('memory = "4G"\nmemory_mb = 1024', (1, 1024, 2048)),
    ],
)
async def test_a_tasks_machine_is_as_large_as_it_says(
    tmp_path: Path, settings: str, machine: tuple[float, int, int]
) -> None:
    """Sizes are in MiB, or texts, as in Terminal-Bench 2."""
    file = harbor_task(tmp_path / "a") / "task.toml"
    file.write_text(f"{file.read_text()}[environment]\n{settings}\n")
    with pytest.raises(Asked) as asked:
        await open_world(BENCHMARK.at(str(tmp_path)), "a", seed=0, host=Lender())
    assert asked.value.args == machine


def test_a_typed_solution_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    folder = write(terminal_bench_task(tmp_path / "a"), {"solution.yaml": '- command: "no end'})
    with pytest.raises(BenchError) as raised:
        list(BENCHMARK.at(str(tmp_path)).tasks())
    assert str(raised.value).startswith(f"{folder / 'solution.yaml'} cannot be read: ")


def test_settings_that_mean_far_more_than_they_say_are_named(tmp_path: Path) -> None:
    folder = terminal_bench_task(tmp_path / "a")
    (folder / "task.yaml").write_text("instruction: &a [*a]")
    with pytest.raises(BenchError, match=r"task.yaml cannot be read: it has more than 100,000 values"):
        list(BENCHMARK.at(str(tmp_path)).tasks())


@pytest.mark.parametrize("name", ["instruction.md", "tests/shared.py", "solution/notes", "task.toml"])
def test_a_file_that_leads_out_of_a_tasks_folder_is_not_read(tmp_path: Path, name: str) -> None:
    """Agents and models read the instruction, and sandboxes have tests and solution."""
    own = tmp_path / "own"
    own.write_text("[a]\nkey = 'mine'\n")
    folder = harbor_task(tmp_path / "set" / "a")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(own)
    with pytest.raises(BenchError, match=f"{name} leads out of the task's folder"):
        assert list(BENCHMARK.at(str(tmp_path / "set")).tasks())
        assert BENCHMARK.at(str(tmp_path / "set"))._folder("a").tests
    (folder / name).unlink()
    (folder / "elsewhere").write_text("[a]\nkey = 'theirs'\n")
    (folder / name).symlink_to(folder / "elsewhere")
    assert BENCHMARK.at(str(tmp_path / "set"))._folder("a").tests


@pytest.mark.parametrize("form", [["--ids"], []])
def test_a_folders_name_cannot_act_on_the_terminal(tmp_path: Path, form: list[str]) -> None:
    harbor_task(tmp_path / "a\x1b]0;title\x07")
    done = CliRunner().invoke(tasks, ["harbor", "--path", str(tmp_path), *form])
    assert done.exit_code == 0 and r"a\x1b]0;title\x07" in done.stdout
    assert not {"\x1b", "\x07"} & {*done.stdout}


def test_a_folder_without_tasks_or_no_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BenchError, match="has no task"):
        BENCHMARK.at(str(tmp_path))
    with pytest.raises(BenchError, match="'harbor', which downloads them, is not on PATH"):
        BENCHMARK.at("terminal-bench@2.0")
    with pytest.raises(BenchError, match="there is no folder"):
        BENCHMARK.at("/nowhere/at all")
    with pytest.raises(BenchError, match="give --path DIR, or name the benchmark harbor:DIR"):
        list(BENCHMARK.tasks())


def test_the_users_own_harbor_downloads_a_data_set(tmp_path: Path, bench_home: Path, monkeypatch) -> None:
    source = terminal_bench_task(tmp_path / "published" / "a")
    program = tmp_path / "bin" / "harbor"
    write(
        program.parent,
        {"harbor": f'#!/bin/sh\n[ "$1 $2 $3 $4" = "datasets download org/x@1 -o" ] && cp -r {source} "$5"\n'},
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    for _ in range(2):
        assert [task.id for task in BENCHMARK.at("org/x@1").tasks()] == ["a"]
        program.write_text("#!/bin/sh\nexit 1\n")
    assert (bench_home / "harbor" / "datasets" / "org--x@1" / "a").is_dir()

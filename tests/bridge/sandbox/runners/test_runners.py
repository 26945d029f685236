"""Experiments on other machines: over a real sshd on loopback, by a stand-in for Slurm, and when they fail."""

from __future__ import annotations

import fcntl
import json
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.bridge.sandbox.runners import remote
from mcp_bench.bridge.sandbox.runners.configured import configured
from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.bridge.sandbox.runners.remote import BOOT, SENT, RunnerLostError, code
from mcp_bench.servers.errors import SandboxError, WrongUseError
from mcp_bench.servers.sandbox import SandboxSpec
from tests.support.archives import unpack
from tests.support.bench_commands import Bench
from tests.support.improvement.small_task import TASK, write_task
from tests.support.machines.ssh_server import SSHD, free_port, runner, ssh_server
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
NEEDS = [
    needs("bwrap", BWRAP.support().works, BWRAP.support().detail),
    needs("sshd", bool(SSHD and shutil.which("ssh")), "install openssh-server"),
]
pytestmark = [pytest.mark.system, *NEEDS]
SALLOC = """#!/bin/sh
# A stand-in for Slurm's salloc: it grants "job 77" at once, and runs the command after its options.
while [ "${1#-}" != "$1" ]; do shift; done
echo "$@" >> {log}
SLURM_JOB_ID=77 exec "$@"
"""
SRUN = """#!/bin/sh
# A stand-in for Slurm's srun: it runs the step on this machine.
echo "$1" >> {log}
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
"""


def write_runners(place: Path, *runners: dict[str, Any]) -> Path:
    path = place / "runners.yaml"
    path.write_text(json.dumps({"runners": runners}))
    return path


def write_program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(stat.S_IRWXU)
    return path


def test_an_experiment_runs_over_ssh_and_a_dead_box_is_left_out(bench: Bench, tmp_path: Path) -> None:
    place = tmp_path / "ssh"
    with ssh_server(place) as (port, _):
        bench.environ["MCP_BENCH_RUNNERS"] = str(
            write_runners(tmp_path, runner("gone", place, free_port()), runner("box", place, port, slots=2))
        )
        folder = write_task(tmp_path)
        record = ("record", "--agent", "oracle", "--benchmark", "improve", "--path", folder)
        done = bench.run(*record, "--limit", "2", "--jobs", "3")
    assert "the runner gone: " in done.stderr, "it is named with a reason"
    assert [row["partial"] > 0 for row in bench.grades()] == [True, True], "a busy machine measures roughly"
    probes = [json.loads(row["probes"]) for row in bench.rows("select probes from episodes")]
    assert {one["machine"] for each in probes for one in each.values() if "machine" in one} == {"box"}
    assert not list((place / "home/.cache/mcp-bench").glob("layers/*")), "no packages were needed"
    assert (bench.home / "runners/gone.failed").read_text()


def test_a_slurm_job_is_one_allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for salloc and srun. Both sandboxes are steps of one job."""
    log = tmp_path / "log"
    log.touch()
    for name, text in {"salloc": SALLOC, "srun": SRUN}.items():
        write_program(tmp_path / name, text.replace("{log}", str(log)))
    path = f"{tmp_path}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", path)
    entry = {"name": "cluster", "kind": "slurm", "options": ["--time=5"], "python": "/usr/bin/python3"}
    assert machines(tmp_path, monkeypatch, entry) == ["cluster", "cluster"]
    assert log.read_text().splitlines()[-2:] == ["--jobid=77", "--jobid=77"]


def test_a_container_is_any_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in: `env` in place of `docker exec -i BOX`."""
    entry = {"name": "crate", "kind": "container", "command": ["env"], "python": "/usr/bin/python3"}
    assert machines(tmp_path, monkeypatch, entry) == ["crate", "crate"]


def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *entries: dict[str, Any]) -> list[str]:
    """Start two sandboxes of an episode, run a command in each, and return where they were."""
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "there"))
    monkeypatch.setenv("MCP_BENCH_RUNNERS", str(write_runners(tmp_path, *entries)))

    async def started() -> list[str]:
        lent = EpisodeSandboxes()
        try:
            for sandbox in [await lent.start(SandboxSpec()) for _ in range(2)]:
                assert (await sandbox.run("echo $((6 * 7))")).output == "42\n"
                assert sandbox.enforced.sound
            return [one.machine for one in lent.enforced]
        finally:
            await lent.aclose()

    return anyio.run(started)


def test_a_box_that_dies_is_no_crash_and_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection ends while a command runs: an error of the machine. The next attempt goes elsewhere."""
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))

    async def used(server: int) -> list[str]:
        lent, again = EpisodeSandboxes(), EpisodeSandboxes()

        async def kill(said: str) -> None:
            children = await anyio.Path(f"/proc/{server}/task/{server}/children").read_text()
            await anyio.run_process(["kill", "-9", *children.split()])

        try:
            sandbox = await lent.start(SandboxSpec())
            with pytest.raises(RunnerLostError, match="the runner box: "):
                await sandbox.run("echo begun; sleep 60", progress=kill)
            return [lent.enforced[0].machine, (await again.start(SandboxSpec())).enforced.machine]
        finally:
            await lent.aclose()
            await again.aclose()

    with ssh_server(tmp_path / "ssh") as (port, server):
        box, spare = runner("box", tmp_path / "ssh", port), {"name": "spare", "kind": "local"}
        monkeypatch.setenv("MCP_BENCH_RUNNERS", str(write_runners(tmp_path, box, spare)))
        assert anyio.run(used, server.pid) == ["box", ""]


def test_doctor_tries_each_runner(bench: Bench, tmp_path: Path) -> None:
    """One that works again is used again. If none works, nothing can be recorded there."""
    gone = {"name": "gone", "kind": "container", "command": ["false"]}
    mark = bench.home / "runners/here.failed"
    mark.parent.mkdir(parents=True)
    mark.write_text("it failed a moment ago")
    works = {"name": "here", "kind": "container", "command": ["env"], "python": "/usr/bin/python3"}
    for runners, levels in (([gone, works], {"gone": "hint", "here": "ok"}), ([gone], {"gone": "problem"})):
        bench.environ["MCP_BENCH_RUNNERS"] = str(write_runners(tmp_path, *runners))
        done = bench.run("doctor", "oracle", "--json", code=0 if "here" in levels else 1)
        rows = [row for row in json.loads(done.stdout)["findings"] if row["subject"] == "runners"]
        assert {row["check"]: row["level"] for row in rows} == levels
        assert "the runner gone" in next(row["text"] for row in rows if row["check"] == "gone")
    assert not mark.exists()
    (tmp_path / "runners.yaml").write_text("runners: [{name: x, kind: ssh}]")
    done = bench.run("doctor", "oracle", "--json", code=1)
    assert "a runner of kind ssh needs a host" in done.stdout


def test_packages_travel_once_over_ssh(bench: Bench, tmp_path: Path) -> None:
    """That machine's Python must have the version of this one."""
    place = tmp_path / "ssh"
    folder = write_task(
        tmp_path, task=TASK.replace("kind: call,", "kind: call, packages: [typing-extensions],")
    )
    target = folder / "target/target.py"
    target.write_text(f"import typing_extensions\n{target.read_text()}")
    with ssh_server(place) as (port, _):
        box = runner("box", place, port) | {"python": sys.executable}
        bench.environ["MCP_BENCH_RUNNERS"] = str(write_runners(tmp_path, box))
        record = (
            "record",
            "--agent",
            "oracle",
            "--benchmark",
            "improve",
            "--path",
            folder,
            "--limit",
            "1",
            "--json",
        )
        found = [json.loads(bench.run(*record).stdout)]
        [layer] = (place / "home/.cache/mcp-bench/layers").iterdir()
        sent = layer.stat().st_ctime_ns
        found.append(json.loads(bench.run(*record).stdout))
    assert [one["partial"] > 0 for one in found] == [True, True], "a busy machine measures roughly"
    assert (layer / "opt/packages/typing_extensions.py").is_file()
    assert layer.stat().st_ctime_ns == sent


REFUSED = "#!/bin/sh\necho invalid partition >&2; exit 1\n"


@pytest.mark.parametrize("kind", ["container", "slurm"])
def test_a_machine_that_failed_gives_its_slot_back_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The next machine is taken, and another episode need not wait for the end of this one."""
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))
    program = write_program(tmp_path / "salloc", REFUSED)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    entries = [
        {"name": "gone", "kind": kind, "command": [str(program)]},
        {"name": "here", "kind": "local"},
    ]
    monkeypatch.setenv("MCP_BENCH_RUNNERS", str(write_runners(tmp_path, *entries)))

    async def free() -> list[bool]:
        lent = EpisodeSandboxes()
        try:
            await lent.start(SandboxSpec())
            return [takes(tmp_path / f"home/runners/{name}.0") for name in ("gone", "here")]
        finally:
            await lent.aclose()

    assert anyio.run(free) == [True, False]
    assert "invalid partition" in (tmp_path / "home/runners/gone.failed").read_text()


def takes(slot: Path) -> bool:
    """Return whether a slot can be taken."""
    with slot.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_a_box_whose_shell_prints_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as an `echo` in a .bashrc."""
    greets = ["sh", "-c", 'echo Welcome to the box; exec "$@"', "sh"]
    loud = {"name": "loud", "kind": "container", "command": greets, "python": "/usr/bin/python3"}
    assert machines(tmp_path, monkeypatch, loud, {"name": "here", "kind": "local"}) == ["", ""]
    why = (tmp_path / "home/runners/loud.failed").read_text()
    assert "its shell prints something before the keeper answers: 'Welcome to the box'" in why


def test_no_runner_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        {"name": "one", "kind": "container", "command": ["false"]},
        {"name": "two", "kind": "container", "command": [str(tmp_path / "missing")]},
    ]
    with pytest.raises(SandboxError, match=r"no runner works: one: .*; two: .*could not be started"):
        machines(tmp_path, monkeypatch, *entries)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "a", "kind": "ssh", "hots": "x"}, r"runners.yaml:1: .*unknown key \(did you mean host"),
        ({"name": "a", "kind": "ssh"}, "a runner of kind ssh needs a host"),
        ({"name": "a", "kind": "ssh", "host": "-oProxyCommand=x"}, "needs a host"),
        ({"name": "a", "kind": "container"}, "needs a command"),
        ({"name": "a/b", "kind": "local"}, "pattern"),
    ],
)
def test_a_broken_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any], words: str
) -> None:
    monkeypatch.setenv("MCP_BENCH_RUNNERS", str(write_runners(tmp_path, entry)))
    with pytest.raises(WrongUseError, match=words):
        configured()


def test_an_unknown_key_of_the_file_is_compared_with_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runners.yaml").write_text("runner: [{name: a, kind: local}]\n")
    monkeypatch.setenv("MCP_BENCH_RUNNERS", str(tmp_path / "runners.yaml"))
    with pytest.raises(
        WrongUseError, match=r"runners.yaml:1: runner: unknown key \(did you mean runners\?\)$"
    ):
        configured()


def test_what_is_sent_needs_nothing_else(tmp_path: Path) -> None:
    """Only the standard library: the other machine has none of our packages."""
    unpack(code(), tmp_path)
    modules = [
        f"mcp_bench.{folder.replace('/', '.')}.{name.removesuffix('.py')}"
        for folder, names in SENT
        for name in names
    ]
    program = f"import sys; sys.path.append({str(tmp_path)!r}); import importlib\n"
    program += f"for name in {modules}: importlib.import_module(name)"
    done = anyio.run(anyio.run_process, [sys.executable, "-I", "-S", "-c", program])
    assert done.returncode == 0
    assert "'" not in BOOT
    assert remote.code() == code()

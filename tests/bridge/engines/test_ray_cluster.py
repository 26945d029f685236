"""A run on a real Ray cluster of two nodes on this machine, which lose processes, disk and head."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bridge.engines.test_referees import HANGS_ONCE, Write, attempts, referee_of, verdict
from tests.support.machines.ray_cluster import Cluster, new_folder
from tests.support.requirements import needs

pytestmark = [
    pytest.mark.system,
    pytest.mark.full,  # a cluster takes 40 CPU seconds; test_on_ray.py has all of it but Ray
    needs("ray", importlib.util.find_spec("ray") is not None, "the extra [ray] is not installed"),
]
NOTEBOOK = (
    "--agent",
    "script",
    "--benchmark",
    "notebook",
    "--jobs",
    "2",
    "--retries",
    "2",
    "--retry-wait",
    "0",
)
KNOCK = """
import json, os, socket, glob
found = {{}}
for path in ({token!r}, *glob.glob("/proc/[0-9]*/environ"), *glob.glob({homes!r} + "/*/nodes/*/key")):
    try:
        with open(path, "rb") as file:
            data = file.read()
        if path == {token!r} or path.endswith("key") or b"RAY_AUTH_TOKEN" in data:
            found[path] = "read"
    except OSError:
        pass
for path in glob.glob({sockets!r}):
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(path)
        found[path] = "connected"
    except OSError:
        pass
found.update({{name: "inherited" for name in os.environ if name.startswith("RAY_")}})
print(json.dumps(found))
server = Server()
server.connect()
"""
WRITES = 'server = Server()\nserver.connect()\nserver.call("write", key="one", value="x")\n'


@pytest.fixture
def cluster(bench: Any) -> Iterator[Cluster]:
    folder = new_folder()
    with Cluster(folder) as made:
        made.add("second")
        bench.environ |= made.environ
        yield made
    shutil.rmtree(folder)


@pytest.fixture
def hanging(script: Write, tmp_path: Path) -> tuple[str, Path, Path]:
    flag, ready = tmp_path / "flag", tmp_path / "ready"
    os.mkfifo(ready)
    return script(HANGS_ONCE.format(flag=str(flag), ready=str(ready))), flag, ready


def on(cluster: Cluster) -> tuple[str, ...]:
    return ("--ray", "--address", cluster.address)


def home_of(agent: int) -> Path:
    """Return the home of the node on which an agent runs."""
    variables = Path(f"/proc/{referee_of(agent)}/environ").read_bytes().split(b"\0")
    return Path(
        next(one for one in variables if one.startswith(b"MCP_BENCH_HOME=")).decode().partition("=")[2]
    )


def test_two_nodes_record_a_run(bench: Any, cluster: Cluster) -> None:
    given = ("--agent", "oracle", "--benchmark", "saasworld", "--limit", "6", "--jobs", "4")
    done = bench.run("record", *given, *on(cluster), "--json")
    assert json.loads(done.stdout)["strict"] == 1.0
    assert "nodes: head, second" in done.stderr or "nodes: second, head" in done.stderr
    assert verdict(bench) == "verified"
    for name in ("head", "second"):
        assert [path.name for path in (cluster.home(name) / "nodes").iterdir()] == ["lock"]


def test_nodes_that_lack_something_are_left_out_before_the_run(bench: Any, script: Write) -> None:
    folder = new_folder()
    with Cluster(folder) as cluster:
        cluster.add("bare", PYTHONPATH="")  # neither the benchmark nor the agent
        cluster.add("open", PATH="/nowhere")  # bwrap is missing
        bench.environ |= cluster.environ
        given = ("--agent", "script", "--benchmark", "notebook", "--agent-option", script(WRITES))
        done = bench.run("record", *given, *on(cluster), "--isolation", "bwrap", "--json")
    shutil.rmtree(folder)
    assert json.loads(done.stdout)["graded"] == 2
    assert "nodes: head\n" in done.stderr
    assert re.search(r"Left out: node bare: .*unknown", done.stderr)
    assert re.search(r"Left out: node open: .*bwrap", done.stderr)


def test_a_killed_node_costs_its_open_episodes(
    bench: Any, cluster: Cluster, hanging: tuple[str, Path, Path]
) -> None:
    option, flag, ready = hanging
    with bench.start("record", *NOTEBOOK, "--agent-option", option, *on(cluster)) as run:
        agent = int(ready.read_text())
        name = home_of(agent).name
        flag.touch()
        if name == "head":  # Ray's driver is there, and would go with it
            os.kill(referee_of(agent), signal.SIGKILL)
        else:
            cluster.kill(name)
        _, err = run.communicate(timeout=600)
    assert f"Node {name} was lost" in err
    assert run.returncode == 0, err
    assert ("numbers", 2, None) in attempts(bench)
    assert len(bench.grades()) == 2
    assert verdict(bench) == "verified"


@pytest.mark.skipif(os.geteuid() != 0, reason="root: only root mounts a small disk")
def test_a_node_with_a_full_disk_is_left_out(
    bench: Any, cluster: Cluster, hanging: tuple[str, Path, Path]
) -> None:
    option, flag, ready = hanging
    for name in ("head", "second"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", cluster.home(name)], check=True)
    try:
        with bench.start("record", *NOTEBOOK, "--agent-option", option, *on(cluster)) as run:
            agent = int(ready.read_text())
            home = home_of(agent)
            with pytest.raises(OSError, match="No space left"), (home / "filler").open("wb", 0) as filler:
                while True:
                    filler.write(b"x" * 4096)
            flag.touch()
            os.kill(agent, signal.SIGKILL)
            _, err = run.communicate(timeout=600)
        assert run.returncode == 0, err
        assert f"Node {home.name} was lost" in err
        assert len(bench.grades()) == 2
        assert verdict(bench) == "verified"
    finally:
        for name in ("head", "second"):
            subprocess.run(["umount", "-l", cluster.home(name)], check=True)


def test_a_killed_head_stops_a_run_that_goes_on_here(
    bench: Any, cluster: Cluster, hanging: tuple[str, Path, Path]
) -> None:
    option, flag, ready = hanging
    with bench.start("record", *NOTEBOOK, "--agent-option", option, *on(cluster)) as run:
        ready.read_text()
        flag.touch()
        cluster.kill("head")
        _, err = run.communicate(timeout=600)
    assert run.returncode == 1
    assert "Ray cluster" in err.splitlines()[-1]
    assert f"Resume with: mcp-bench record --resume {bench.run_folder.name} --ray" in err
    done = bench.run("record", "--resume", bench.run_folder.name, "--json")
    assert json.loads(done.stdout)["strict"] == 1.0
    assert verdict(bench) == "verified"


@pytest.mark.parametrize("level", ["landlock", "bwrap", "uid"])
def test_an_agent_on_a_node_gets_no_token(bench: Any, cluster: Cluster, script: Write, level: str) -> None:
    sockets = str(cluster.folder / "ray" / "*" / "sockets" / "*")
    source = KNOCK.format(token=str(cluster.token), homes=str(cluster.folder / "homes"), sockets=sockets)
    given = ("--agent", "script", "--benchmark", "notebook", "--agent-option", script(source))
    bench.run("record", *given, *on(cluster), "--isolation", level)
    logs = list((bench.run_folder / "logs").glob("*.stdout.log"))
    found = [json.loads(log.read_text().splitlines()[0]) for log in logs]
    assert len(found) == 2
    connected = [path for one in found for path, how in one.items() if how == "connected"]
    others = [path for one in found for path, how in one.items() if how != "connected"]
    assert others == []
    assert connected == [] or level == "landlock"  # which does not cover sockets with a path


@pytest.mark.parametrize("environ", [{}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}])
def test_nobody_submits_code_without_the_token(cluster: Cluster, environ: dict[str, str]) -> None:
    """An agent may bring a Ray of its own; the head's port is open to it at every level."""
    code = f"import ray; ray.init(address={cluster.address!r}); print(ray.get(ray.remote(lambda: 41).remote()) + 1)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "HOME": str(cluster.folder), **environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0 and "42" not in done.stdout
    assert "auth" in (done.stdout + done.stderr).lower()

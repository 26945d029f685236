"""The benchmark `swe`. Task ids are SWE-bench's `instance_id`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from anyio import to_thread

from mcp_bench.servers.contracts import Limits, Reference, Replay, Task, ToolCall
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.needs import SANDBOX
from mcp_bench.servers.sandbox import HOST_BASE, SandboxLimits, SandboxSpec
from mcp_bench.servers.swe import repository
from mcp_bench.servers.swe.instance import (
    LAYER,
    REPOSITORIES,
    VARIABLE,
    Instance,
    SweError,
    folder,
    instances,
)
from mcp_bench.servers.swe.world import ROOT, TEST_SECONDS, SweWorld, python_path
from mcp_bench.servers.worlds.shell_world import BASH, ShellWorld
from mcp_bench.servers.worlds.simple import SimpleBenchmark

MIB = 1 << 20
LIMITS = SandboxLimits(memory=2048 * MIB, storage=2048 * MIB, processes=256, seconds=120)
PROMPT = """\
The repository of {repo} is in {root}. Resolve this issue:

{issue}

Change the repository's files so that the issue is resolved. Hidden tests will check it. Do not change or add
tests: yours are not used. `python3 -m pytest` runs those that are there."""


class SWE(SimpleBenchmark):
    """Issues of real repositories, from a local file in SWE-bench's format and local clones."""

    name = "swe"
    version = "1"
    summary = "Issues of real repositories, in SWE-bench's format: hidden tests must pass."
    replay: Replay = "none"
    install = "mcp-bench swe-tasks"
    toolset = ShellWorld.toolset
    own_files = True

    @property
    def variables(self) -> dict[str, str]:
        """What it finds in this home, for a process that has another one."""
        return {VARIABLE: str(folder())}

    def missing(self) -> str | None:
        """Return why there are no tasks, or None."""
        try:
            instances()
        except SweError as error:
            return str(error)
        return None

    def ids(self, split: str) -> Iterator[str]:
        return (name for name, one in instances().items() if one.split == split)

    def make_task(self, task_id: str) -> Task | None:
        one = instances().get(task_id)
        if one is None:
            return None
        programs = ("program:git", "program:python3") if one.base == HOST_BASE else ("program:git",)
        return Task(
            id=task_id,
            benchmark=self.name,
            split=one.split,
            domain=one.repo,
            needs=(SANDBOX, *programs),
            prompt=PROMPT.format(repo=one.repo, root=ROOT, issue=one.problem_statement.strip()),
            timeout=3600.0,
            limits=Limits(grade_seconds=TEST_SECONDS + 300),
        )

    async def make_world(self, task_id: str, seed: int, host: Host = NO_HOST) -> SweWorld:
        """Return a new world. `seed` changes nothing."""
        one = instances()[task_id]
        clone = folder() / REPOSITORIES / one.clone
        tree = await to_thread.run_sync(repository.files_at, clone, one.base_commit)
        tests = await to_thread.run_sync(repository.patched, clone, one.base_commit, one.test_patch)
        both = "\n".join((one.test_patch, one.patch))
        solved = partial(repository.patched, clone, one.base_commit, both)
        spec = sandbox_spec(one)
        return await SweWorld.opened(
            one, await host.sandbox(spec), await host.sandbox(spec), tree, tests, solved
        )

    def reference(self, task_id: str) -> Reference | None:
        patch = instances()[task_id].patch
        if not patch.strip():
            return None
        text = patch if patch.endswith("\n") else f"{patch}\n"
        command = f"cd {ROOT} && git apply --whitespace=nowarn - <<'END OF THE PATCH'\n{text}END OF THE PATCH"
        return Reference(calls=(ToolCall(name=BASH.name, arguments={"command": command}),), answer="Done.")


def sandbox_spec(one: Instance) -> SandboxSpec:
    layer = folder() / LAYER
    env = {"PYTHONPATH": python_path(one.pythonpath), "PYTHONDONTWRITEBYTECODE": "1"}
    return SandboxSpec(
        base=one.base if one.base == HOST_BASE else str(folder() / one.base),
        layers=(str(layer),) if layer.is_dir() else (),
        workdir=ROOT,
        env=env,
        limits=LIMITS,
    )


BENCHMARK = SWE()

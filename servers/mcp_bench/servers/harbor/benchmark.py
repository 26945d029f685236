"""The benchmark of a folder with tasks in the format of Harbor or of Terminal-Bench 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from anyio import to_thread

from mcp_bench.servers.contracts import Limits, Reference, Replay, Task
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.harbor.bases import read_bases
from mcp_bench.servers.harbor.build import build, key_of
from mcp_bench.servers.harbor.datasets import dataset_folder
from mcp_bench.servers.harbor.demands import demands_of
from mcp_bench.servers.harbor.dockerfile import Image, UnsupportedError
from mcp_bench.servers.harbor.folder import TaskFolder, read_folder, task_folders
from mcp_bench.servers.harbor.solution import solution_calls
from mcp_bench.servers.harbor.world import HarborWorld
from mcp_bench.servers.hidden_tests import tools
from mcp_bench.servers.home import expanded
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.needs import CONTAINER, SANDBOX
from mcp_bench.servers.sandbox import Sandbox, SandboxLimits, SandboxSpec
from mcp_bench.servers.worlds.shell_world import ShellWorld
from mcp_bench.servers.worlds.simple import SimpleBenchmark

TEST, UNVERIFIED = "test", "unverified"
MIB = 1 << 20
OPEN_SECONDS = 900.0
"""On its first use, a task's solution is played, and its tests run twice."""


class Harbor(SimpleBenchmark):
    """Tasks of one folder: `at` returns the benchmark of a folder."""

    name = "harbor"
    version = "1"
    summary = "Task folders in Harbor's and Terminal-Bench's format: name one with --path."
    replay: Replay = "none"
    splits = (TEST, UNVERIFIED)
    default_split = TEST
    toolset = ShellWorld.toolset
    agent_inside = True
    own_files = True

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def at(self, path: str) -> Harbor:
        """Return the benchmark of a folder, or of a published data set by its name.

        Raises:
            BenchError: there is no task in it, or the data set cannot be downloaded.
        """
        given = expanded(path)
        folder = given.resolve() if given.is_dir() else dataset_folder(path)
        found = Harbor(folder)
        found.name = f"{self.name}:{folder}"
        if not found._folders:
            raise WrongUseError(
                f"{folder} has no task: a folder with task.toml (Harbor) or task.yaml (Terminal-Bench 1)"
            )
        return found

    def missing(self) -> str | None:
        """Return why it cannot run here."""
        return tools.missing() if self._path is not None else "it works on a folder: name one with --path"

    def ids(self, split: str) -> Iterator[str]:
        return (name for name in self._folders if self._split(self._folder(name)) == split)

    def make_task(self, task_id: str) -> Task | None:
        if task_id not in self._folders:
            return None
        folder = self._folder(task_id)
        seconds = folder.seconds("test", 600)
        about = folder.section("metadata") or folder.settings
        tags = [folder.format, str(about.get("difficulty") or "")]
        tags += [str(tag) for tag in about.get("tags") or ()]
        return Task(
            id=task_id,
            benchmark=self.name,
            prompt=folder.prompt,
            split=self._split(folder),
            domain=str(about.get("category") or "terminal"),
            tags=tuple(dict.fromkeys("-".join(tag.split()) for tag in tags if tag.strip())),
            timeout=folder.seconds("agent", 900),
            limits=Limits(
                open_seconds=OPEN_SECONDS + 2 * seconds,
                grade_seconds=seconds + 60 + _limits(folder).changes_seconds,
            ),
            trainable=folder.trainable(),
            needs=self._needs(folder),
        )

    async def make_world(self, task_id: str, seed: int, host: Host = NO_HOST) -> HarborWorld:
        folder = self._folder(task_id)
        base, image = self._environment(folder)
        key = await to_thread.run_sync(key_of, folder, image, base) if image.steps else ""
        spec = _spec(folder, base, image).model_copy(update={"kept": key})

        async def opened() -> Sandbox:
            sandbox = await host.sandbox(spec)
            await build(sandbox, folder, image, key)
            return sandbox

        solved = self._split(folder) == TEST
        demands = await demands_of(folder, base, image.workdir, opened) if solved else None
        return HarborWorld(await opened(), folder, demands, base, image.workdir)

    def reference(self, task_id: str) -> Reference | None:
        self.task(task_id)
        return solution_calls(self._folder(task_id))

    @cached_property
    def _folders(self) -> dict[str, Path]:
        if self._path is None:
            raise WrongUseError(
                "harbor needs a folder with tasks, or the name of a published data set: give --path DIR, or "
                "name the benchmark harbor:DIR"
            )
        found = list(task_folders(self._path))
        names = [str(one.relative_to(self._path)) for one in found]
        return {one.name if name == "." else name: one for name, one in zip(names, found, strict=True)}

    def _folder(self, task_id: str) -> TaskFolder:
        return read_folder(self._folders[task_id], task_id)

    @staticmethod
    def _split(folder: TaskFolder) -> str:
        return TEST if solution_calls(folder) is not None else UNVERIFIED

    @staticmethod
    def _environment(folder: TaskFolder) -> tuple[str, Image]:
        """Return the base and what is to be built on it.

        Raises:
            UnsupportedError: the task needs a container engine.
        """
        bases = read_bases()
        built = bases.built(folder.id)
        image = folder.image(built=built is not None)
        return (bases.image(image.base), image) if built is None else (built, replace(image, steps=()))

    def _needs(self, folder: TaskFolder) -> tuple[str, ...]:
        if lacking := folder.lacks():
            return (f"files:{lacking}",)
        try:
            self._environment(folder)
        except UnsupportedError as error:
            return (f"{CONTAINER}:{error}",)
        return (SANDBOX,)


def _limits(folder: TaskFolder) -> SandboxLimits:
    memory = max(int(folder.mebibytes("memory", 2048)), 512)
    storage = max(int(folder.mebibytes("storage", 2048)), 512)
    return SandboxLimits(
        cpus=folder.number("environment", "cpus", 1),
        memory=memory * MIB,
        storage=storage * MIB,
        processes=512,
    )


def _spec(folder: TaskFolder, base: str, image: Image) -> SandboxSpec:
    return SandboxSpec(base=base, workdir=image.workdir, env=dict(image.env), limits=_limits(folder))

"""The benchmark `improve`. Task ids are NAME.SPLIT.NUMBER: the number is a variant, with data of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import anyio

from mcp_bench.servers.contracts import JSON, Limits, Reference, Replay, Task, ToolCall
from mcp_bench.servers.errors import BenchError, WrongUseError, bench_errors
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.improve.candidate import PATH, PATIENCE
from mcp_bench.servers.improve.estimate import BASELINE, CANDIDATE, REFERENCE
from mcp_bench.servers.improve.held_out import graded_state
from mcp_bench.servers.improve.packages import PLACE, absent, check_python, layer
from mcp_bench.servers.improve.task_file import FILE, Experiment, ImproveTask, read_task
from mcp_bench.servers.improve.tried import try_once
from mcp_bench.servers.improve.world import SUBMIT, WRITE, ImproveWorld
from mcp_bench.servers.needs import GPU, NEED, PACKAGE, SANDBOX
from mcp_bench.servers.sandbox import Sandbox, SandboxLimits, SandboxSpec
from mcp_bench.servers.worlds.simple import SimpleBenchmark

TASKS = Path(__file__).parent / "tasks"
MIB = 1 << 20
TRY_SECONDS = 120.0
"""For the trial of a task of one's own, besides the time of its programs."""
PROMPT = """{readme}

Make {metric} as {goal} as you can by editing {target}. Only its 95 % interval against the baseline counts, \
measured on the same inputs. Look at the files with `read`, change them with `edit` or `write`, and try them \
with `run` ({runs} runs, {seconds} s in all{processor}). End with `submit`: that version is measured again, \
on data that no run has seen. {place} Limits: {limits}{size} bytes of files."""
PROGRAM = "The program runs in a sandbox without network{processes}."
TEXT = "The text is a prompt: a model answers it once for each case, whose input stands where {input} is."
ENVIRONMENT = {
    "PYTHONPATH": f"{PATH}:{PLACE}",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class Improve(SimpleBenchmark):
    """Tasks in folders (`task_file.py`)."""

    name = "improve"
    version = "1"
    summary = "Make a program, a codec, a model or queries measurably better; graded on held-out data."
    replay: Replay = "none"
    default_split = "train"
    toolset = ImproveWorld.toolset

    def __init__(self, folder: Path = TASKS) -> None:
        self._folder = folder
        self._own = False
        self._trying = anyio.Lock()

    def at(self, path: str) -> Improve:
        """Return the benchmark of a folder: a task, or a folder of tasks.

        Raises:
            WrongUseError: there is none in it, or one is broken.
        """
        found = Improve(Path(path))
        found.name = f"{self.name}:{path}"
        found._own = True
        for task in found.folders.values():
            _ = task.scorer  # now, so that errors come before an agent starts
        return found

    @cached_property
    def folders(self) -> dict[str, ImproveTask]:
        """The tasks by name.

        Raises:
            WrongUseError: one of them is broken.
        """
        if not self._folder.is_dir():
            raise WrongUseError(f"{self._folder}: there is no such folder")
        places = [self._folder] if (self._folder / FILE).is_file() else sorted(self._folder.iterdir())
        tasks = dict[str, ImproveTask]()
        for task in (read_task(place) for place in places if (place / FILE).is_file()):
            name = task.definition.name
            if name in tasks:
                raise WrongUseError(
                    f"{task.folder / FILE}: the task in {tasks[name].folder} has the name {name}, too: give "
                    "one of them another name"
                )
            tasks[name] = task
        if not tasks:
            raise WrongUseError(f"{self._folder}: there is no task: no folder with a {FILE}")
        return tasks

    def ids(self, split: str) -> Iterator[str]:
        counts = {
            name: count
            for name, task in self.folders.items()
            for here, count in task.definition.splits.items()
            if here == split
        }
        for number in range(max(counts.values(), default=0)):
            yield from (f"{name}.{split}.{number}" for name, count in counts.items() if number < count)

    def make_task(self, task_id: str) -> Task | None:
        found = self._parsed(task_id)
        if found is None:
            return None
        task, split = found
        definition = task.definition
        metric, experiment, budget = definition.metric, definition.experiment, definition.budget
        prompt = PROMPT.format(
            readme=task.readme.strip(),
            metric=metric.name,
            runs=budget.runs,
            seconds=budget.seconds,
            goal="small" if metric.direction == "minimize" else "large",
            target=" and ".join(definition.target),
            size=definition.max_bytes,
            **runs(experiment),
            processor=(f", {budget.processor_seconds:g} s of processors" if budget.processor_seconds else ""),
        )
        needs = [f"{NEED}{experiment.role}" if asks_operator(task) else SANDBOX]
        needs += [f"{PACKAGE}{name}" for name in absent(experiment.packages)]
        needs += [GPU] if experiment.gpu else []
        return Task(
            id=task_id,
            benchmark=self.name,
            prompt=prompt,
            split=split,
            domain=definition.family,
            tags=(f"kind-{experiment.kind}",),
            needs=tuple(needs),
            timeout=budget.seconds + 60,
            limits=Limits(
                call_seconds=max(600, 4 * experiment.seconds),
                # a candidate may sleep, also in the process that it loads last
                grade_seconds=max(900, (PATIENCE + 4) * (experiment.seconds + experiment.load_seconds)),
            ),
        )

    async def make_world(self, task_id: str, seed: int, host: Host = NO_HOST) -> ImproveWorld:
        found = self._parsed(task_id)
        assert found is not None  # noqa: S101 - the caller has looked it up
        task = found[0]
        spec = sandbox_spec(task)
        sandboxes: dict[str, Sandbox] = {}

        async def start(name: str) -> None:
            sandboxes[name] = await host.sandbox(spec)

        try:
            async with anyio.create_task_group() as starting:
                for name in (BASELINE, CANDIDATE, REFERENCE):
                    starting.start_soon(start, name)
        except BaseExceptionGroup as group:
            raise next(bench_errors(group), group) from None
        if task.definition.experiment.packages:
            await check_python(sandboxes[BASELINE])
        if self._own and not asks_operator(task):
            async with self._trying:
                await _tried(task, sandboxes)
        return ImproveWorld(task, task_id, seed, sandboxes, host)

    def reference(self, task_id: str) -> Reference:
        self.task(task_id)
        found = self._parsed(task_id)
        assert found is not None  # noqa: S101
        writes = [
            ToolCall(name=WRITE.name, arguments={"path": path, "text": text})
            for path, text in found[0].reference.items()
            if text != found[0].baseline[path]
        ]
        return Reference(calls=(*writes, ToolCall(name=SUBMIT.name)), answer="Submitted.")

    def grade_state(self, task_id: str, state: JSON) -> Grade:
        """Return the grade of a stored final state, from its samples.

        Raises:
            BenchError: it does not have them.
            UnknownNameError: there is no such task any more.
        """
        self.task(task_id)
        found = self._parsed(task_id)
        assert found is not None  # noqa: S101
        return graded_state(found[0], state)

    def _parsed(self, task_id: str) -> tuple[ImproveTask, str] | None:
        match task_id.split("."):
            case [name, ("train" | "dev" | "test") as split, number] if (
                name in self.folders
                and number.isascii()
                and number.isdecimal()
                and str(int(number)) == number
                and int(number) < self.folders[name].definition.splits.get(split, 0)
            ):
                return self.folders[name], split
        return None


async def _tried(task: ImproveTask, sandboxes: Mapping[str, Sandbox]) -> None:
    """Try a task once, within a limit. To wait for a machine is limited where machines are lent."""
    seconds = TRY_SECONDS + 2 * task.definition.experiment.seconds
    try:
        with anyio.fail_after(seconds):
            await try_once(task, sandboxes)
    except TimeoutError:
        raise BenchError(f"{task.folder}: its programs were not measured within {seconds:g} s") from None


def asks_operator(task: ImproveTask) -> bool:
    """Return whether the operator's model answers the prompts of a task."""
    return task.definition.experiment.kind == "text" and not task.model


def runs(experiment: Experiment) -> dict[str, str]:
    """Return for the prompt how a candidate runs, and its limits."""
    if experiment.kind == "text":
        return {"place": TEXT, "limits": ""}
    processes = "" if experiment.processes else ", and cannot start processes or threads"
    return {
        "place": PROGRAM.format(processes=processes),
        "limits": f"{experiment.memory_mib} MiB, {experiment.seconds:.0f} s for one measurement, ",
    }


def sandbox_spec(task: ImproveTask) -> SandboxSpec:
    """Return the sandbox that a candidate runs in.

    Raises:
        BenchError: a package that candidates need is not installed.
    """
    experiment = task.definition.experiment
    limits = SandboxLimits(memory=experiment.memory_mib * MIB, storage=256 * MIB)
    layers = (str(layer(experiment.packages)),) if experiment.packages else ()
    return SandboxSpec(limits=limits, env=ENVIRONMENT, layers=layers, gpus=experiment.gpu)


BENCHMARK = Improve()

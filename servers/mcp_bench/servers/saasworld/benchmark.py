"""The benchmarks `saasworld` and `saasworld-api`: the same tasks and grader with different toolsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_bench.servers.contracts import JSON, AssertionResult, Reference, Replay, Task, ToolSpec, World
from mcp_bench.servers.saasworld.version import VERSION


class SaasWorldBenchmark:
    """Implements the Benchmark contract in this process.

    Only the name, the version and the summary are available at once; the rest is imported on first use.
    """

    replay: Replay = "exact"
    replay_ignores: tuple[str, ...] = ()

    private_splits = ("private",)

    by_hand = "saasworld-api"
    """What interactive use serves in place of this benchmark: the same tasks, all with the same two tools."""

    def __init__(self, name: str, summary: str, *, api: bool) -> None:
        self.name = name
        self.version = VERSION
        self.summary = summary
        self._api = api

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        """Yield tasks. None means `train`; `all` means train, dev and test. `practice` has others of train.

        Raises:
            UnknownNameError: there is no such split.
            SecretError: the split is private and there is no secret.
        """
        from mcp_bench.servers.saasworld.tasks import listing

        return (self.task(str(task_id)) for task_id in listing(split, limit))

    def task(self, task_id: str) -> Task:
        """Return one task.

        Raises:
            UnknownNameError: there is no such family, level or split.
            WrongUseError: the text is not a task id, or the family is not in that split.
        """
        from mcp_bench.servers.saasworld.authoring.family import load_family
        from mcp_bench.servers.saasworld.tasks import build, parse

        found = parse(task_id)
        return Task(
            id=task_id,
            benchmark=self.name,
            prompt=build(found).prompt,
            split=found.split,
            domain=load_family(found.family).domain,
            tags=(f"level-{found.level}", found.family),
        )

    def prepare_split(self, split: str) -> str | None:
        """Create the secret of the private split on its first use.

        Raises:
            SecretError: it cannot be written.
        """
        from mcp_bench.servers.secret import made_secret

        return made_secret("saasworld") if split in self.private_splits else None

    async def open(self, task_id: str, *, seed: int = 0) -> World:
        """Open a fresh world. `seed` has no effect: the id determines everything."""
        from mcp_bench.servers.saasworld.rest import Api
        from mcp_bench.servers.saasworld.tasks import build, parse
        from mcp_bench.servers.saasworld.toolsets import Direct
        from mcp_bench.servers.saasworld.world import SaasWorld

        built = build(parse(task_id))
        return SaasWorld(built, Api(built) if self._api else Direct(built))

    def reference(self, task_id: str) -> Reference:
        from mcp_bench.servers.saasworld.rest import Api
        from mcp_bench.servers.saasworld.tasks import build, parse
        from mcp_bench.servers.saasworld.toolsets import Direct

        built = build(parse(task_id))
        toolset = Api(built) if self._api else Direct(built)
        return Reference(calls=tuple(toolset.play(step) for step in built.steps), answer="Done.")

    def describe(self, assertion: AssertionResult, final_state: JSON) -> tuple[str, str]:
        """Return what a stored assertion requires, and what was found instead."""
        from mcp_bench.servers.saasworld.grading.words import describe

        return describe(assertion.name, passed=assertion.passed, final_state=final_state)

    def tools(self) -> Sequence[ToolSpec]:
        from mcp_bench.servers.saasworld.apps import operations
        from mcp_bench.servers.saasworld.rest import SPECS
        from mcp_bench.servers.saasworld.toolsets import spec

        return SPECS if self._api else tuple(map(spec, operations().values()))

    async def aclose(self) -> None:
        """Do nothing: there is no process to end."""


BENCHMARK = SaasWorldBenchmark(
    "saasworld", "A simulated company: unlimited generated tasks over typed tools of 15 apps.", api=False
)
API_BENCHMARK = SaasWorldBenchmark(
    "saasworld-api", "The tasks of saasworld, with api_search and api_fetch instead of typed tools.", api=True
)

"""The benchmark `codeworld`. Task ids are FAMILY.LEVEL.SPLIT.NUMBER, as in saasworld."""

from __future__ import annotations

import random
from collections.abc import Iterator
from hashlib import sha256
from itertools import count

from mcp_bench.servers.codeworld.case import Case
from mcp_bench.servers.codeworld.families import FAMILIES, HELD_OUT, PROGRAMS
from mcp_bench.servers.codeworld.world import CodeWorldWorld
from mcp_bench.servers.contracts import Reference, Replay, Task, ToolCall
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.needs import SANDBOX
from mcp_bench.servers.sandbox import SandboxLimits, SandboxSpec
from mcp_bench.servers.secret import PRIVATE, made_secret, read_secret
from mcp_bench.servers.worlds.shell_world import BASH, ShellWorld
from mcp_bench.servers.worlds.simple import SimpleBenchmark

LEVELS = (1, 2, 3)
LISTED = {"dev": 20, "test": 20, PRIVATE: 20}
"""Numbers of each family and level that are listed; `train` does not end."""
MIB = 1 << 20
LIMITS = SandboxLimits(memory=1024 * MIB, storage=512 * MIB, processes=128)


class CodeWorld(SimpleBenchmark):
    """Generated tasks in a sandbox. `test` and `private` have the families in `HELD_OUT`."""

    name = "codeworld"
    version = "2"
    summary = "Generated work in a terminal: mend code, analyse logs, clean data, repair repositories."
    replay: Replay = "none"
    private_splits = (PRIVATE,)
    endless_splits = ("train",)
    default_split = "train"
    toolset = ShellWorld.toolset
    agent_inside = True

    def ids(self, split: str) -> Iterator[str]:
        numbers = range(LISTED[split]) if split in LISTED else count()
        families = [name for name in FAMILIES if self._in_split(name, split)]
        return (
            f"{family}.{level}.{split}.{number}"
            for number in numbers
            for family in families
            for level in LEVELS
        )

    def make_task(self, task_id: str) -> Task | None:
        found = self._parsed(task_id)
        if found is None:
            return None
        family, level, split = found
        return Task(
            id=task_id,
            benchmark=self.name,
            prompt=self._case(task_id).prompt,
            split=split,
            domain=family,
            tags=(f"level-{level}",),
            needs=(SANDBOX, *(f"program:{program}" for program in PROGRAMS.get(family, ()))),
        )

    async def make_world(self, task_id: str, seed: int, host: Host = NO_HOST) -> CodeWorldWorld:
        """Return a new world. Everything follows from the id, so `seed` changes nothing."""
        sandbox = await host.sandbox(SandboxSpec(limits=LIMITS))
        return await CodeWorldWorld.opened(sandbox, self._case(task_id), self.version)

    def reference(self, task_id: str) -> Reference:
        self.task(task_id)
        script = self._case(task_id).solution
        return Reference(calls=(ToolCall(name=BASH.name, arguments={"command": script}),), answer="Done.")

    def prepare_split(self, split: str) -> str | None:
        """Create the secret of the private split on its first use.

        Raises:
            SecretError: it cannot be written.
        """
        return made_secret(self.name) if split == PRIVATE else None

    def _case(self, task_id: str) -> Case:
        found = self._parsed(task_id)
        assert found is not None  # noqa: S101 - the caller has looked it up
        family, level, split = found
        secret = read_secret(self.name).hex() if split == PRIVATE else ""
        digest = sha256(f"{self.version} {secret} {task_id}".encode()).digest()
        return FAMILIES[family](random.Random(digest), level)  # noqa: S311 - not for secrets

    def _parsed(self, task_id: str) -> tuple[str, int, str] | None:
        match task_id.split("."):
            case [family, level, split, number] if (
                family in FAMILIES
                and level in map(str, LEVELS)
                and split in (*self.splits, *self.private_splits)
                and self._in_split(family, split)
                and number.isascii()
                and number.isdecimal()
                and str(int(number)) == number
            ):
                return family, int(level), split
        return None

    @staticmethod
    def _in_split(family: str, split: str) -> bool:
        return (family in HELD_OUT) == (split in ("test", PRIVATE))

"""AgentDojo's user tasks as a Benchmark. Only the worker process imports this module."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice, zip_longest

# before the others, which import AgentDojo
from mcp_bench.servers.agentdojo.deferred import get_suites
from mcp_bench.servers.agentdojo.facts import CONTEXT, NAME, REPLAY_IGNORES, VACUOUS_TASKS, VERSION
from mcp_bench.servers.agentdojo.grading import Suite, UserTask, fresh
from mcp_bench.servers.agentdojo.splits import SPLITS, assign
from mcp_bench.servers.agentdojo.tools import tool_spec
from mcp_bench.servers.agentdojo.world import AgentDojoWorld
from mcp_bench.servers.contracts import (
    ALL_SPLITS,
    VACUOUS,
    Reference,
    Replay,
    Task,
    ToolCall,
    ToolSpec,
    World,
)
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.worlds.answer import SUBMIT_ANSWER


class AgentDojo:
    """97 user tasks in four suites. A task's domain is its suite, its id `suite/user_task_n`.

    The prompt is the task's own text and the facts and rules from AgentDojo's default system message
    (`facts.CONTEXT`), since an agent sees nothing else. It does not contain today's date; tasks that need
    it have a tool that returns it.
    """

    name = NAME
    version = VERSION
    summary = "AgentDojo user tasks"
    replay: Replay = "normalised"
    replay_ignores = REPLAY_IGNORES

    @cached_property
    def _suites(self) -> dict[str, Suite]:
        return get_suites(VERSION)

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        """Every task by its id. The suites alternate, so the first few tasks cover all of them."""
        by_suite = [
            [f"{name}/{task_id}" for task_id in sorted(suite.user_tasks, key=task_number)]
            for name, suite in self._suites.items()
        ]
        split_of: dict[str, str] = {}
        for ids in by_suite:
            split_of |= assign(task_id for task_id in ids if task_id not in VACUOUS_TASKS)
            split_of |= assign(task_id for task_id in ids if task_id in VACUOUS_TASKS)
        ordered = [task_id for turn in zip_longest(*by_suite) for task_id in turn if task_id is not None]
        return {task_id: self._describe(task_id, split_of[task_id]) for task_id in ordered}

    def _describe(self, task_id: str, split: str) -> Task:
        _, task = self._find(task_id)
        return Task(
            id=task_id,
            benchmark=NAME,
            prompt=f"{task.PROMPT.strip()}\n\n{CONTEXT}",
            split=split,
            domain=task_id.partition("/")[0],
            tags=(VACUOUS,) if task_id in VACUOUS_TASKS else (),
        )

    def _find(self, task_id: str) -> tuple[Suite, UserTask]:
        domain, _, number = task_id.partition("/")
        suite = self._suites[domain]
        return suite, suite.user_tasks[number]

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        """Yield the 92 tasks that an agent can fail, or those of one split.

        Raises:
            UnknownNameError: there is no such split.
        """
        if split is not None and split not in (ALL_SPLITS, *SPLITS):
            raise UnknownNameError("split", split, [*SPLITS, ALL_SPLITS])
        chosen = (
            task
            for task in self._tasks.values()
            if VACUOUS not in task.tags and split in (None, ALL_SPLITS, task.split)
        )
        return islice(chosen, limit)

    def task(self, task_id: str) -> Task:
        if task_id not in self._tasks:
            raise UnknownNameError(f"{NAME} task", task_id, self._tasks)
        return self._tasks[task_id]

    async def open(self, task_id: str, *, seed: int = 0) -> World:
        """Open a fresh environment. It has no randomness: every seed gives the same one."""
        self.task(task_id)
        return AgentDojoWorld(*self._find(task_id))

    def reference(self, task_id: str) -> Reference:
        self.task(task_id)
        suite, task = self._find(task_id)
        calls = tuple(
            ToolCall(name=call.function, arguments=json.loads(json.dumps(dict(call.args))))
            for call in task.ground_truth(fresh(suite, task))
        )
        return Reference(calls=calls, answer=task.GROUND_TRUTH_OUTPUT)

    def tools(self) -> Sequence[ToolSpec]:
        """Return the tools of all suites. Tools that several suites share are identical."""
        found = {tool.name: tool for suite in self._suites.values() for tool in suite.tools}
        return (*map(tool_spec, found.values()), SUBMIT_ANSWER)

    async def aclose(self) -> None:
        """Do nothing: all state is in memory."""


def task_number(task_id: str) -> int:
    return int(task_id.rpartition("_")[2])


BENCHMARK = AgentDojo()

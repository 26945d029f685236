"""AutomationBench (Zapier): business work in 47 simulated apps, through an API that is searched and called.

The package is on no index, so it is the user's own installation; its tools, its worlds and its grader do the
work. It has no reference solutions. Only a worker imports this module: see
`mcp_bench.servers.adapters.remotes`.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from unittest.mock import patch

from automationbench.domains import DOMAINS, PUBLIC_DOMAINS, get_domain_dataset
from automationbench.rubric import partial_credit, task_completed_correctly
from automationbench.schema.world import WorldState
from automationbench.tools.api import API_TOOLS

from mcp_bench.servers.contracts import JSON, Task, ToolResult
from mcp_bench.servers.grading import PARTIAL_CEILING, AssertionResult, Grade
from mcp_bench.servers.worlds.function_tools import function_tool
from mcp_bench.servers.worlds.simple import SimpleBenchmark, SimpleWorld

VERSION = "1.0.6-api-2"
SIMPLE, DEV = "simple", 5
"""The domain of short tasks, every fifth of them in `dev`. The other domains are the leaderboard's."""
LENT = "world"  # the parameter of a tool that agents do not see
NOW = datetime(2026, 1, 5, 9, 0)
"""A world's clock, unless its task sets it. Upstream's default is the present."""


class Case(NamedTuple):
    """A task of the package."""

    domain: str
    split: str
    prompt: str
    system: str
    info: dict[str, Any]


@cache
def cases() -> dict[str, Case]:
    """Return all public tasks by id: `DOMAIN.NAME`, as `--export-json` names them."""
    found: dict[str, Case] = {}
    for domain in dict.fromkeys((*PUBLIC_DOMAINS, *(name for name in DOMAINS if name == SIMPLE))):
        for place, row in enumerate(get_domain_dataset(domain)):
            info = row["info"]
            info = without_padding(json.loads(info) if isinstance(info, str) else info)
            split = "test" if domain != SIMPLE else "train" if place % DEV else "dev"
            said = {one["role"]: str(one["content"]) for one in row["prompt"]}
            name = str(info.get("task_name") or row["example_id"])
            task_id = name if name.startswith(f"{domain}.") else f"{domain}.{name}"
            found[task_id] = Case(domain, split, said["user"], said.get("system", ""), info)
    return found


def without_padding(value: Any) -> Any:
    """Return a value without the fields that are None: a data set pads its rows with them."""
    match value:
        case dict():
            return {name: without_padding(one) for name, one in value.items() if one is not None}
        case list():
            return [without_padding(one) for one in value]
    return value


def services_of(info: Mapping[str, Any]) -> list[str]:
    """Return the apps that a task grants: those that it fills, checks or names tools of."""
    apps = sorted(WorldState.model_fields.keys() - {"meta"}, key=len)[::-1]
    named = [str(one["type"]) for one in info.get("assertions", ())] + list(info.get("zapier_tools", ()))
    # the longest name first: `google_sheets_row_exists` is not of an app `google`
    granted = {
        next((app for app in apps if name == app or name.startswith(f"{app}_")), None) for name in named
    }
    return sorted({app for app in (*granted, *(info.get("initial_state", {}).keys() & apps)) if app})


TOOLS: dict[str, Callable[..., Any]] = {tool.__name__: tool for tool in API_TOOLS}
SPECS = tuple(function_tool(tool, hidden=(LENT,), checked=False) for tool in TOOLS.values())


class AutomationWorld(SimpleWorld):
    """One attempt at a task. Ids follow from the task and the seed, so that replays are the same."""

    toolset = SPECS

    def __init__(self, task_id: str, seed: int) -> None:
        self._info = cases()[task_id].info
        self._chance = random.Random(f"{task_id}.{seed}")
        self._start = self._info.get("initial_state", {})
        with self._own_chance():
            self._world = WorldState(**deepcopy(self._start))  # lists of records keep the dicts they get
        self._world.meta.allowed_services = services_of(self._info)
        if "current_time" not in self._start.get("meta", {}):
            self._world.meta.current_time = pinned(self._world.meta.current_time)

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        tool = TOOLS[name]
        given = {key: value for key, value in arguments.items() if value != {}}  # as upstream's agents do
        lent = {LENT: self._world} if LENT in inspect.signature(tool).parameters else {}
        try:
            with self._own_chance():
                result = tool(**given | lent)
        except Exception as error:  # upstream, too, shows its text to the model
            return ToolResult(text=str(error), is_error=True)
        return ToolResult(text=result if isinstance(result, str) else json.dumps(result, default=str))

    async def grade(self, answer: str) -> Grade:
        """Return upstream's verdict on the live world; some of its state is in no dump.

        A check that fails on what the agent left counts as 0, as in upstream's runs: attempts that spoil the
        grader must not be repeated as invalid ones.
        """
        info = {"assertions": self._info.get("assertions", [])}
        state: dict[str, Any] = {"info": info, "initial_state": deepcopy(self._start), "world": self._world}
        try:
            credit = partial_credit(state)  # leaves its results in `state`
            completed = task_completed_correctly(state)
        except Exception as error:
            failed = AssertionResult(name="the checks", passed=False, detail=repr(error))
            return Grade(partial=0.0, strict=False, assertions=(failed,), grader_version=VERSION)
        partial, strict = float(credit), float(completed) == 1
        return Grade(
            partial=1.0 if strict else min(max(partial, 0.0), PARTIAL_CEILING),
            strict=strict,
            assertions=tuple(
                AssertionResult(
                    name=f"{number} {one['type']}",
                    passed=bool(one["passed"]),
                    kind="guardrail" if one.get("excluded") else "objective",
                    detail="" if one["passed"] else json.dumps(one.get("params"), default=str),
                )
                for number, one in enumerate(state["_assertion_results"], 1)
                # neither kept nor broken: upstream never counts it
                if one["passed"] or not one.get("excluded")
            ),
            grader_version=VERSION,
        )

    async def snapshot(self) -> Any:
        return self._world.model_dump(mode="json")

    @contextmanager
    def _own_chance(self) -> Iterator[None]:
        """Let random ids and numbers come from this world's generator."""
        others = random.getstate()
        random.setstate(self._chance.getstate())
        try:
            with patch.object(os, "urandom", random.randbytes):
                yield
        finally:
            self._chance.setstate(random.getstate())
            random.setstate(others)


def pinned(now: Any) -> Any:
    """Return `NOW` in the form that the package has for the time."""
    if isinstance(now, datetime):
        return NOW.replace(tzinfo=now.tzinfo)
    zone = re.search(r"(Z|[+-]\d\d:\d\d)?$", str(now))
    return NOW.isoformat() + (zone[0] if zone else "")


class AutomationBench(SimpleBenchmark):
    name = "automationbench"
    version = VERSION
    summary = "AutomationBench: business work in 47 simulated apps, from your own installation."
    toolset = SPECS

    def ids(self, split: str) -> Iterable[str]:
        return [task_id for task_id, case in cases().items() if case.split == split]

    def make_task(self, task_id: str) -> Task | None:
        case = cases().get(task_id)
        return case and Task(
            id=task_id,
            benchmark=self.name,
            prompt=case.prompt,
            system=case.system,
            split=case.split,
            domain=case.domain,
            tags=(case.domain,),
        )

    def make_world(self, task_id: str, seed: int) -> AutomationWorld:
        return AutomationWorld(task_id, seed)


BENCHMARK = AutomationBench()

"""BFCL v4 multi-turn: conversations with a scripted user, in which tools and facts may be missing at first.

The Berkeley Function Calling Leaderboard (Patil et al., ICML 2025, Apache-2.0), with the data, the tools and
the checks of its own package, `bfcl-eval`. Only a worker imports this module: see
`mcp_bench.servers.adapters.remotes`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from importlib.resources import files
from typing import Any

from bfcl_eval.constants.executable_backend_config import MULTI_TURN_FUNC_DOC_FILE_MAPPING

from mcp_bench.servers.adapters.bfcl_world import VERSION, BfclWorld, parse, tool
from mcp_bench.servers.contracts import Reference, Task, ToolCall, ToolSpec
from mcp_bench.servers.worlds.simple import SimpleBenchmark

FILE = "BFCL_v4_multi_turn_"
CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
UNSOLVABLE = frozenset({"multi_turn_miss_func_49"})
"""Its reference calls `tail` two turns before the user hands `tail` over; no agent can have that result."""
SPLIT_OF = ("train", "train", "train", "dev", "test")


def lines(name: str) -> list[dict[str, Any]]:
    text = (files("bfcl_eval") / "data" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


class Bfcl(SimpleBenchmark):
    name = "bfcl"
    version = VERSION
    summary = "BFCL v4 multi-turn: 800 conversations with a scripted user, judged turn by turn."
    converses = True

    @cached_property
    def entries(self) -> dict[str, dict[str, Any]]:
        found = [entry for name in CATEGORIES for entry in lines(f"{FILE}{name}.json")]
        return {entry["id"]: entry for entry in sorted(found, key=lambda entry: scenario(entry["id"]))}

    @cached_property
    def truths(self) -> dict[str, list[list[str]]]:
        found = [entry for name in CATEGORIES for entry in lines(f"possible_answer/{FILE}{name}.json")]
        return {entry["id"]: entry["ground_truth"] for entry in found}

    @cached_property
    def tools_of(self) -> dict[str, list[ToolSpec]]:
        """The tools of each API: all worlds have the same objects, so that a worker converts them once."""
        used = {name for entry in self.entries.values() for name in entry["involved_classes"]}
        docs = {name: f"multi_turn_func_doc/{MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]}" for name in used}
        return {name: [tool(doc) for doc in lines(file)] for name, file in docs.items()}

    @cached_property
    def split_of(self) -> dict[int, str]:
        """The split of each scenario: those that share a start, a first message or a reference are one."""
        groups: dict[str, int] = {}
        found: dict[int, str] = {}
        for task_id, entry in self.entries.items():
            marks = (entry["initial_config"], entry["question"][0], self.truths[task_id], scenario(task_id))
            keys = [json.dumps(mark, sort_keys=True) for mark in marks]
            group = next((groups[key] for key in keys if key in groups), scenario(task_id))
            groups |= dict.fromkeys(keys, group)
            found[scenario(task_id)] = SPLIT_OF[group % len(SPLIT_OF)]
        return found

    def ids(self, split: str) -> Iterator[str]:
        return (task_id for task_id in self.entries if self.split_of[scenario(task_id)] == split)

    def make_task(self, task_id: str) -> Task | None:
        if task_id not in self.entries:
            return None
        category = task_id.removeprefix("multi_turn_").rpartition("_")[0]
        prompt = self.entries[task_id]["question"][0][0]["content"]
        split = self.split_of[scenario(task_id)]
        tags = ("unsolvable",) if task_id in UNSOLVABLE else ()
        return Task(id=task_id, benchmark=self.name, prompt=prompt, split=split, domain=category, tags=tags)

    def make_world(self, task_id: str, seed: int) -> BfclWorld:
        return BfclWorld(self.entries[task_id], self.truths[task_id], self.tools_of)

    def reference(self, task_id: str) -> Reference | None:
        if task_id in UNSOLVABLE:
            return None
        apis = self.make_world(task_id, 0).new_apis()
        calls: list[ToolCall] = []
        for turn in self.truths[task_id]:
            calls += [parse(call, apis) for call in turn]
            calls.append(ToolCall(name="reply_to_user", arguments={"message": "Done."}))
        return Reference(calls=tuple(calls))

    def tools(self) -> list[ToolSpec]:
        return [one for name in sorted(self.tools_of) for one in self.tools_of[name]]


def scenario(task_id: str) -> int:
    """Return the number of a task's scenario: each category has it once."""
    return int(task_id.rpartition("_")[2])


BENCHMARK = Bfcl()

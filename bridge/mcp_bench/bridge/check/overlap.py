"""Whether splits share tasks, by the comparison that `export` and `leakage` use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice

from mcp_bench.bridge.check.finding import Finding, judged
from mcp_bench.recorder.leakage.held_out import build
from mcp_bench.recorder.leakage.split_index import SIMILAR, Leak, Row, SplitIndex
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall
from mcp_bench.servers.contracts import Benchmark, Reference, Task
from mcp_bench.servers.mcp_server.world_session import error_text

HELD_OUT = {"train": ("test", "dev"), "dev": ("test",)}
"""By the split of a task: the splits that it must not be in."""
SHOWN = 5
MOST_TASKS = 100_000
"""Of a held-out split: `export` compares with all of them, so it must end."""


def overlap(
    benchmark: Benchmark, tasks: Mapping[str, Sequence[Task]], solutions: Mapping[str, Reference]
) -> Finding:
    """Compare the sample's tasks with every task of the held-out splits."""
    failures: list[str] = []
    warnings: list[str] = []
    compared = 0
    indexes: dict[str, SplitIndex | None] = {}
    kinds: Counter[str] = Counter()
    for split, held_out in HELD_OUT.items():
        for other in held_out:
            if not tasks.get(split) or not tasks.get(other):
                continue
            if other not in indexes:
                indexes[other] = None
                try:
                    if any(islice(benchmark.tasks(other), MOST_TASKS, None)):
                        failures.append(f"{other} cannot be compared: it has more than {MOST_TASKS:,} tasks")
                    else:
                        indexes[other] = SplitIndex(build(benchmark, other))
                except Exception as error:  # the benchmark's own code
                    failures.append(f"{other} cannot be compared: {error_text(error)}")
            if (index := indexes[other]) is None:
                continue
            for task in tasks[split]:
                compared += 1
                leak = index.find(row(task, solutions.get(task.id)), SIMILAR)
                if leak is not None:
                    kinds[f"{leak.kind} in {split} and {other}"] += 1
                    # where a world has files, the same words can be another task; in test, they count
                    copied = leak.kind == "task" or (leak.kind == "same prompt" and other == "test")
                    (failures if copied else warnings).append(sentence(task, leak))
    if not compared and not failures:
        return Finding("overlap", "not checked", "there are no two splits to compare")
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none found"
    return judged("overlap", f"{counted}, in {compared} comparisons", few(failures), few(warnings))


def row(task: Task, solved: Reference | None) -> Row:
    """Return a task as an exported row would show it: its prompt, and the reference as the attempt."""
    messages = [Message(role="user", content=task.prompt)]
    if solved is not None:
        calls = [
            ToolCall(id=f"call_{n}", function=FunctionCall(name=call.name, arguments=call.arguments))
            for n, call in enumerate(solved.calls)
        ]
        messages += [Message(role="assistant", tool_calls=calls)] if calls else []
        messages += [Message(role="assistant", content=solved.answer)] if solved.answer else []
    return Row(
        benchmark=task.benchmark, task=task.id, split=task.split, messages=messages, split_is_sure=True
    )


def sentence(task: Task, leak: Leak) -> str:
    return f"{task.id} of {task.split}: {leak.words()}"


def few(reasons: Sequence[str]) -> list[str]:
    more = len(reasons) - SHOWN
    return [*reasons[:SHOWN], *([f"and {more} more"] if more > 0 else [])]

"""Preference pairs: the best and the worst attempt at a task, for DPO and similar methods.

Rows have the keys of TRL's DPOTrainer (https://huggingface.co/docs/trl/dataset_formats, preference):
`prompt`, `chosen` and `rejected` are messages, with arguments as objects; `tools` are the tools of the task.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from mcp_bench.recorder.curation.candidate import Candidate, quality
from mcp_bench.recorder.curation.caps import by_task
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.export.rows import Beside, Note, Rows
from mcp_bench.recorder.files.writing import Encode
from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.facts import facts
from mcp_bench.recorder.formats.trl import Trl
from mcp_bench.recorder.trajectory import Trajectory

_OF_THE_TASK = ("benchmark", "task", "split", "domain")
_COUNTS = ("pairs", "no_good_attempt", "no_margin", "unlike_prompts", "unlike_tools", "silent")
MIN_MARGIN = 0.01
"""Smallest difference of the grades of a pair. Partial grades are shares of assertions."""


class Pairs(Rows):
    """One row for each task that has a good and a worse attempt."""

    name = "pairs"
    columns: Mapping[str, Column] = {
        **dict.fromkeys(("prompt", "chosen", "rejected", "tools"), "json list"),
        **dict.fromkeys(_OF_THE_TASK, "string"),
        "margin": "float",
        "chosen_episode": "json",
        "rejected_episode": "json",
    }

    def __init__(self, *, least: float, margin: float) -> None:
        """Make the rows.

        Args:
            least: Minimum partial grade of the better attempt.
            margin: Minimum difference between the two grades.
        """
        self._least = least
        self._margin = margin
        self._form = Trl()
        self._counts = dict.fromkeys(_COUNTS, 0)

    def rows(
        self, curation: Curation, chosen: Sequence[Candidate], note: Note, encode: Encode, beside: Beside
    ) -> Generator[Any]:
        """Yield the pairs, ordered by the first attempt at each task."""
        for attempts in by_task(chosen).values():
            ranked = sorted(attempts, key=quality)
            best, worst = ranked[0], ranked[-1]
            if best.partial < self._least:
                self._counts["no_good_attempt"] += 1
            elif best.partial - worst.partial < self._margin - 1e-9:
                self._counts["no_margin"] += 1
            else:
                read = [found for one in (best, worst) for found in curation.read([one])]
                row = self._row(*curation.redacted(read[0][2], read[1][2]))
                if row is not None:
                    for _, episode, conversation in read:
                        note(episode, curation.guard.leak(episode, conversation))
                    yield encode(row)

    def facts(self) -> dict[str, Any]:
        return {"pairs": {"least": self._least, "margin": self._margin, "tasks": dict(self._counts)}}

    def why_none(self) -> str:
        words = {
            "no_good_attempt": f"without an attempt of {self._least:g} or more",
            "no_margin": f"whose attempts differ by less than {self._margin:g}",
            "unlike_prompts": "whose best and worst attempts had different prompts",
            "unlike_tools": "whose best and worst attempts had different tools",
            "silent": "with an attempt that did nothing",
        }
        found = [f"{self._counts[name]} {text}" for name, text in words.items() if self._counts[name]]
        return f"of their tasks, {', '.join(found)}"

    def _row(self, better: Trajectory, worse: Trajectory) -> dict[str, Any] | None:
        prompt, chosen, tools = self._parts(better)
        other, rejected, other_tools = self._parts(worse)
        if prompt != other:
            self._counts["unlike_prompts"] += 1
            return None
        if _sorted(tools) != _sorted(other_tools):  # a row has one list, for both
            self._counts["unlike_tools"] += 1
            return None
        if not chosen or not rejected:
            self._counts["silent"] += 1
            return None
        self._counts["pairs"] += 1
        of_task = {name: getattr(better, name) for name in _OF_THE_TASK}
        return {
            "prompt": prompt,
            "chosen": chosen,
            "rejected": rejected,
            "tools": tools,
            **of_task,
            "margin": round((better.partial or 0.0) - (worse.partial or 0.0), 6),
            "chosen_episode": _facts(better),
            "rejected_episode": _facts(worse),
        }

    def _parts(self, trajectory: Trajectory) -> tuple[list[Any], list[Any], list[Any]]:
        row = self._form.row(trajectory)
        messages = row["messages"]
        start = len(list(takewhile(lambda message: message["role"] in ("system", "user"), messages)))
        return messages[:start], messages[start:], row["tools"]


def _sorted(tools: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(tool, sort_keys=True) for tool in tools)


def _facts(trajectory: Trajectory) -> dict[str, Any]:
    return {name: value for name, value in facts(trajectory).items() if name not in _OF_THE_TASK}

"""Read a folder of `mcp-bench improve`: its generations, what each proposed, and what became of it.

As for loops, the files are those that `docs/agents/improve-agents.md` describes, and each can be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mcp_bench.bridge.harness.folder import read_harness
from mcp_bench.bridge.viewer.training.facts import Facts, listed, number, read_object, span
from mcp_bench.bridge.viewer.training.text_changes import Change, changes
from mcp_bench.servers.errors import WrongUseError

KINDS = {
    "harness": "edit of the harness",
    "train": "training on the best episodes",
    "rl": "learning from reward",
    "none": "no change",
    "stop": "stop",
}
"""What a generation can propose."""
RECORDED = ("train", "gate", "confirm", "test")
"""What an arm is recorded on: `gate` and `confirm` are the halves of dev."""


class Arm(NamedTuple):
    """A harness and weights, each by the generation that made it; 0 is what was there at the start."""

    harness: int = 0
    weights: int = 0

    @property
    def folder(self) -> str:
        return f"h{self.harness}-w{self.weights}"

    @property
    def words(self) -> str:
        parts = (("harness", self.harness), ("weights", self.weights))
        found = [f"{what} of generation {number}" for what, number in parts if number]
        return ", ".join(found) or "the start"


@dataclass(frozen=True, slots=True)
class Generation:
    """The results of a generation's phases, each an empty object until it is done."""

    number: int
    folder: Path
    parent: Arm
    """The best one before it."""
    proposal: Facts
    check: Facts
    train: Facts
    decision: Facts

    @property
    def action(self) -> str:
        return str(self.proposal["action"] or "")

    @property
    def arm(self) -> Arm | None:
        """What it proposes, if that can be recorded."""
        if self.action == "harness":
            return Arm(self.number, self.parent.weights)
        return Arm(self.parent.harness, self.number) if self.action in ("train", "rl") else None

    @property
    def promoted(self) -> bool:
        return bool(self.decision["promoted"])

    @property
    def gain(self) -> float | None:
        """The mean paired difference of partial credit on the gate's tasks, if it was measured."""
        return number(self.decision["difference"]) if number(self.decision["tasks"]) else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return span(self.decision["interval"])

    @property
    def refused(self) -> list[str]:
        """Why it was not measured."""
        return [str(one) for one in listed(self.check["refused"])]

    @property
    def doing(self) -> str:
        """What a generation does that has not ended."""
        if self.decision:
            return ""
        if not self.proposal:
            return "finding a change"
        if self.action == "harness":
            return "measuring" if self.check else "checking"
        return "measuring" if self.train else "training"


@dataclass(frozen=True, slots=True)
class Recording:
    """A run of an arm."""

    arm: Arm
    what: str
    run: str


class Improvement:
    """A folder of `mcp-bench improve`, as it is now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = read_object(path / "improve.json")
        self.history = read_object(path / "history.json")
        self.generations = self._generations()

    @property
    def stopped(self) -> str:
        """Why it ended; empty while it goes on."""
        return str(self.history["stopped"] or "")

    @property
    def best(self) -> Arm:
        return next((one.arm for one in reversed(self.generations) if one.promoted and one.arm), Arm())

    @property
    def line(self) -> list[Generation]:
        """The generations that were promoted, in order: what the best one was made by."""
        return [one for one in self.generations if one.promoted]

    @property
    def widest(self) -> float:
        """The largest end of an interval of a gain, without its sign: for the scale of a chart."""
        ends = [abs(end) for one in self.generations for end in (one.interval or (one.gain or 0.0,))]
        return max([0.1, *ends])

    @property
    def spent(self) -> dict[str, float]:
        """What all recordings used: episodes, tokens, usd and seconds."""
        found = self.history["spent"]
        values = found if isinstance(found, dict) else {}
        return {name: value for name in values if (value := number(values[name])) is not None}

    def arms(self) -> list[Arm]:
        """Return what was recorded, in the order of its making."""
        found = []
        for path in self.path.glob("h*-w*"):
            harness, _, weights = path.name[1:].partition("-w")
            if harness.isdecimal() and weights.isdecimal():
                found.append(Arm(int(harness), int(weights)))
        return sorted(found, key=lambda arm: (max(arm), arm))

    def recordings(self, arm: Arm, what: str) -> list[Recording]:
        """Return the runs of an arm on some tasks: several if the first ones left a gate unclear."""
        paths = sorted((self.path / arm.folder).glob(f"{what}-*.json"))
        runs = [read_object(path)["run"] for path in paths]
        return [Recording(arm, what, str(run)) for run in runs if run]

    def edits(self, generation: Generation) -> list[Change]:
        """Return what a generation changes in the files of the harness.

        Raises:
            WrongUseError: a harness cannot be read.
        """
        if generation.action != "harness":
            return []
        before = self._harness(generation.parent.harness)
        return changes(before, self._harness(generation.number))

    def _harness(self, made_by: int) -> Mapping[str, str]:
        folder = self.path / f"generation-{made_by}" / f"h{made_by}"
        if not folder.is_dir() or not any(path.is_file() for path in folder.rglob("*")):
            return {}
        return read_harness(folder).files

    def _generations(self) -> list[Generation]:
        names = [path.name.removeprefix("generation-") for path in self.path.glob("generation-*")]
        found: list[Generation] = []
        best = Arm()
        for at in sorted(int(name) for name in names if name.isdecimal() and int(name)):
            folder = self.path / f"generation-{at}"
            steps = (read_object(folder / f"{step}.json") for step in STEPS)
            one = Generation(at, folder, best, *steps)
            found.append(one)
            if one.promoted and one.arm:
                best = one.arm
        return found


STEPS = ("proposal", "check", "train", "decision")


def edits_or_why_not(improvement: Improvement, generation: Generation) -> tuple[list[Change], str]:
    """Return what a generation changes in the harness, and why that cannot be shown."""
    try:
        return improvement.edits(generation), ""
    except WrongUseError as error:
        return [], str(error)


def line_of(path: Path) -> dict[str, Any]:
    """Return what the list of all training says of an improvement."""
    found = Improvement(path)
    return {
        "recipe": found.settings["benchmark"],
        "begun": len(found.generations),
        "of": found.settings["generations"],
        "ended": bool(found.stopped),
        "promoted": len(found.line),
        "best": found.best,
    }

"""What came of an improvement on test: first and last harness with first and last weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from mcp_bench.recorder.scores.statistics import Interval
from mcp_bench.servers.grading import Measure
from mcp_bench.trainer.folders import Outcome, read_step
from mcp_bench.trainer.improve.effects import Effect, by_family, effects, mean
from mcp_bench.trainer.improve.folder import Arm, ImproveFolder
from mcp_bench.trainer.improve.gate import Scores, too_many_invalid
from mcp_bench.trainer.improve.measured import comparable
from mcp_bench.trainer.improve.recordings import Recordings

ALL = "all tasks"
TEST = "test-0.json"


@dataclass(frozen=True)
class OnTest:
    """Scores of the arms that were measured on test."""

    measure: Measure | None
    """What was measured; None is partial credit."""
    parts: Mapping[str, Mapping[Arm, Scores]]
    """All tasks, then each family if there are several."""
    tokens: Mapping[Arm, int | None]
    """For each episode; None where agents do not report them."""
    doubtful: Mapping[Arm, tuple[int, int]]
    """Of how many episodes of how many, where there are too many: see `Recordings.scores`."""

    @property
    def arms(self) -> Sequence[Arm]:
        return list(self.tokens)

    def effects(self, part: str = ALL) -> list[Effect]:
        return effects(self.parts[part])

    def mean(self, part: str, arm: Arm) -> tuple[float, Interval | None] | None:
        """Return the mean of what was measured, in its own direction, with its interval."""
        found = mean(self.parts[part][arm])
        if found is None or self.measure is None or self.measure[2] != "lower":
            return found
        value, interval = found
        return -value, interval and (-interval[1], -interval[0])

    def document(self) -> Outcome:
        """Return all figures as JSON."""
        means = [(part, arm, self.mean(part, arm)) for part in self.parts for arm in self.arms]
        return {
            "measure": self.measure,
            "means": [
                {"of": part, "arm": str(arm), "mean": found[0], "interval": found[1]}
                for part, arm, found in means
                if found is not None
            ],
            "effects": [{"of": part, **asdict(one)} for part in self.parts for one in self.effects(part)],
            "tokens_per_episode": {str(arm): count for arm, count in self.tokens.items()},
            "doubtful": {str(arm): count for arm, (count, _) in self.doubtful.items()},
        }


def on_test(folder: ImproveFolder, history: Outcome) -> OnTest | None:
    """Return what was measured on test; None if nothing was."""
    recordings = Recordings(folder, folder.read())
    arms = [Arm(*map(int, name[1:].split("-w"))) for name in history["test"]]
    if not arms:
        return None
    scored = {arm: recordings.scores(arm, "test", 1) for arm in arms}
    found, measure = comparable([graded for graded, _, _ in scored.values()])
    doubtful = {arm: (few, all_) for arm, (_, few, all_) in scored.items() if too_many_invalid(few, all_)}
    cells = dict(zip(arms, found, strict=True))
    families = by_family(cells)
    parts = {ALL: cells, **(families if len(families) > 1 else {})}
    return OnTest(measure, parts, {arm: _tokens(folder, arm) for arm in arms}, doubtful)


def _tokens(folder: ImproveFolder, arm: Arm) -> int | None:
    spent = (read_step(folder.arm(arm) / TEST) or {}).get("spent", {})
    return round(spent["tokens"] / spent["episodes"]) if spent.get("tokens") else None

"""Sections about learning from reward for `mcp-bench report --html FILE --loop FOLDER`.

Everything is read from the run's folder, which can still be growing, and from the recordings of its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.html_report.sections import (
    Cell,
    Chart,
    Fact,
    Line,
    LineChart,
    Role,
    Score,
    Section,
    Table,
)
from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.trainer.folders import read_step
from mcp_bench.trainer.rl.collect import is_valid
from mcp_bench.trainer.rl.folder import RLFolder

Series = tuple[str, str, Role]
"""Key of metrics.jsonl, label, and colour of a line."""
CHARTS: dict[str, tuple[Series, ...]] = {
    "Reward of the attempts": (
        ("reward", "partial", "partial"),
        ("strict", "strict", "strict"),
        ("flat", "flat groups", "broken"),
    ),
    "Entropy of the policy, nats a token": (("entropy", "entropy", "loss"),),
    "KL divergence to the start, nats a token": (("kl", "KL divergence", "loss"),),
    "Divergence from the teacher, nats a token": (("teacher", "divergence", "loss"),),
}
SHARES = {"reward", "strict", "flat"}
COLUMNS = (
    *("step", "episodes", "invalid", "reward", "strict", "flat", "loss", "entropy", "kl", "gap_solved"),
    *("mismatch", "tokens", "seconds", "rollout_seconds"),
)
SHOWN = 4
"""Attempts of a step that are shown."""


def sections(folder: Path) -> list[Section]:
    """Return the sections about a run.

    Raises:
        WrongUseError: the folder has no run.
    """
    run = RLFolder(folder)
    settings, lines = run.read(), run.lines()
    name = f"Learning from reward ({settings.algorithm})"
    stopped = read_step(run.stopped)
    why = [] if stopped is None else [f"A guard stopped it: {stopped['why']}"]
    if not lines:
        return [Section(name, ["No step is finished yet.", *why])]
    episodes = sum(line["episodes"] for line in lines)
    learned = sum("loss" in line for line in lines)
    words = [
        f"{counted(len(lines), 'step')} of {settings.steps}, {counted(episodes, 'episode')}; "
        f"{counted(learned, 'step')} updated the policy.",
        *why,
    ]
    facts = [
        Fact(label, f"{lines[0][key]:.2f} → {lines[-1][key]:.2f}", "first and last step")
        for key, label in (("reward", "partial"), ("strict", "strict"))
        if lines[0].get(key) is not None and lines[-1].get(key) is not None
    ]
    return [Section(name, words, facts, [_steps(lines)], _charts(lines)), *_samples(run, lines)]


def _charts(lines: Sequence[dict[str, Any]]) -> list[Chart]:
    """Return the charts that have something to show."""
    made: list[Chart] = []
    for title, series in CHARTS.items():
        known = [
            (key, label, role, [line for line in lines if line.get(key) is not None])
            for key, label, role in series
        ]
        known = [one for one in known if any(line[one[0]] for line in one[3])]
        if not known:
            continue
        rows: list[list[Cell]] = [
            [label, line["step"], float(line[key])] for key, label, _, found in known for line in found
        ]
        drawn = [
            Line(label, role, [line["step"] for line in found], [Score(float(line[key])) for line in found])
            for key, label, role, found in known
        ]
        chart = LineChart(
            name=f"rl-{known[0][0]}",
            title=title,
            says="Each point is a step.",
            table=Table(title, ["line", "step", "value"], rows),
            x_label="step",
            lines=drawn,
            share=known[0][0] in SHARES,
        )
        made.append(chart)
    return made


def _steps(lines: Sequence[dict[str, Any]]) -> Table:
    shown = [name for name in COLUMNS if any(line.get(name) is not None for line in lines)]
    rows: list[list[Cell]] = [[line.get(name) for name in shown] for line in lines]
    return Table("Steps", [name.replace("_", " ") for name in shown], rows)


def _samples(run: RLFolder, lines: Sequence[dict[str, Any]]) -> list[Section]:
    """Return some attempts of the first and of the last step, whose recordings are still there."""
    rows: list[list[Cell]] = []
    for step in dict.fromkeys((lines[0]["step"], lines[-1]["step"])):
        done = read_step(run.path / "steps" / str(step) / "attempts-0.run.json")
        if done is None or not (runs_dir() / str(done["run"])).is_dir():
            continue
        with RunReader(runs_dir() / str(done["run"])) as reader:
            rows += [_sample(reader, step, episode) for episode in _chosen(list(reader.episodes()))]
    if not rows:
        return []
    table = Table("Sample rollouts", ["step", "task", "partial", "calls", "episode"], rows)
    words = "The best and the worst attempts of the first and the last step: mcp-bench show EPISODE"
    return [Section("Sample rollouts", [words], tables=[table])]


def _chosen(episodes: Sequence[StoredEpisode]) -> list[StoredEpisode]:
    """Return the best and the worst valid attempts."""
    valid = (one for one in episodes if is_valid(one))
    graded = sorted(valid, key=lambda one: -(one.partial or 0))
    half = SHOWN // 2
    return graded if len(graded) <= SHOWN else [*graded[:half], *graded[-half:]]


def _sample(reader: RunReader, step: int, episode: StoredEpisode) -> list[Cell]:
    calls = [f"{call.tool}{' (failed)' if call.is_error else ''}" for call in reader.calls(episode.id)]
    return [step, episode.task, episode.partial, " → ".join(calls) or "none", episode.id]

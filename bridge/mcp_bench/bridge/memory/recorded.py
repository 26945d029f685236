"""The harnesses of recorded runs, with their episodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from mcp_bench.bridge.harness.folder import Harness, stored_harness
from mcp_bench.recorder.run_settings import ScoreSettings
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.scores.conditions import CONDITIONS, differing_conditions

Recorded = dict[str, tuple[Harness, list[StoredEpisode]]]
"""Harnesses by their version, with all episodes that had them."""


def harness_runs(
    paths: Sequence[Path], splits: Collection[str]
) -> dict[str, list[tuple[Harness, list[StoredEpisode]]]]:
    """Return the harnesses that each agent and model had, with all episodes of the splits.

    Episodes under other conditions, such as another limit of calls, are apart. What differs is then named.
    """
    found: dict[str, dict[tuple[str, ...], Recorded]] = {}
    for path in paths:
        with RunReader(path) as reader:
            harness = stored_harness(reader.settings())
            if harness is None:
                continue
            for one in reader.episodes():
                if one.split in splits and one.ended_us is not None:
                    who = " ".join(filter(None, (one.agent, one.model)))
                    alike = found.setdefault(who, {}).setdefault(_conditions(one, harness), {})
                    alike.setdefault(harness.version, (harness, []))[1].append(one)
    named = {}
    for who, groups in found.items():
        words = differing_conditions([dict(zip(CONDITIONS, key, strict=True)) for key in groups])
        for word, versions in zip(words, groups.values(), strict=True):
            named[", ".join(filter(None, (who, word)))] = list(versions.values())
    return named


def _conditions(episode: StoredEpisode, harness: Harness) -> tuple[str, ...]:
    """Return what attempts must have in common besides the harness, and the options that come from it."""
    settings, own = episode.settings, harness.agents.get(episode.agent, {})
    options = {name: value for name, value in settings.options.items() if own.get(name) != value}
    rest = ScoreSettings.of(settings.model_copy(update={"harness": None, "options": options}))
    return (episode.tools_mode, episode.home, episode.isolation, rest)

"""The harnesses of recorded runs, with their episodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from mcp_bench.bridge.harness.folder import Harness, stored_harness
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode


def harness_runs(
    paths: Sequence[Path], splits: Collection[str]
) -> dict[str, list[tuple[Harness, list[StoredEpisode]]]]:
    """Return the harnesses that each agent and model had, with all episodes of the splits."""
    found: dict[str, dict[str, tuple[Harness, list[StoredEpisode]]]] = {}
    for path in paths:
        with RunReader(path) as reader:
            harness = stored_harness(reader.settings())
            if harness is None:
                continue
            for one in reader.episodes():
                if one.split in splits and one.ended_us is not None:
                    who = " ".join(filter(None, (one.agent, one.model)))
                    of_agent = found.setdefault(who, {})
                    of_agent.setdefault(harness.version, (harness, []))[1].append(one)
    return {who: list(versions.values()) for who, versions in found.items()}

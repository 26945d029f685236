"""OpenEvolve as a driver: its database chooses the version to work on, and those that are shown beside it.

https://github.com/algorithmicsuperintelligence/openevolve, an open AlphaEvolve (Novikov et al., arXiv
2506.13131): a grid of programs by length and difference (MAP-Elites) on islands, with migration. Its own
prompts, evaluators and processes are not used: requests are ours, and its score is the gain that the server
measured.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from random import Random
from typing import Any

from mcp_bench.clients.events import ClientError
from mcp_bench.clients.search.choose import Version

NAME = "openevolve"
BESIDE = 2
"""Versions that are shown beside the one to work on."""


class Islands:
    """What chooses versions: see `choose.Choose`. All settings are the package's own, but for the seed."""

    def __init__(self, seed: int) -> None:
        """Make an empty database.

        Raises:
            ClientError: the package is not installed.
        """
        if importlib.util.find_spec("openevolve") is None:
            raise ClientError(
                "usage", "the driver openevolve needs the Python package openevolve: pip install openevolve"
            )
        config: Any = importlib.import_module("openevolve.config").DatabaseConfig(random_seed=seed)
        package: Any = importlib.import_module("openevolve.database")
        self._program, self._database = package.Program, package.ProgramDatabase(config)
        self._known = self._turn = 0

    def __call__(self, versions: Sequence[Version], rng: Random) -> list[Version]:
        """Return the versions to show, the one to work on last. Islands take turns."""
        for version in versions[self._known :]:
            self._add(version)
        self._known = len(versions)
        if not self._database.programs:  # not even the baseline could be run
            return [versions[0]]
        island = self._turn % len(self._database.islands)
        parent, beside = self._database.sample_from_island(island, BESIDE)
        self._turn += 1
        parts = {program.metadata["version"]: None for program in (parent, *beside)}  # each once, in order
        return [versions[number] for number in reversed(parts)]

    def _add(self, version: Version) -> None:
        """Add a version with a gain to the island whose turn led to it."""
        if version.low is None:
            return
        island = (self._turn - 1) % len(self._database.islands) if version.number else 0
        program = self._program(
            id=str(version.number),
            code="\n".join(version.files.values()),
            parent_id=str(version.parents[-1]) if version.parents else None,
            metrics={"combined_score": version.low},
            metadata={"version": version.number},  # copies that migrate have other ids
        )
        self._database.add(program, iteration=version.number, target_island=island)
        self._database.increment_island_generation(island)
        if self._database.should_migrate():
            self._database.migrate_programs()

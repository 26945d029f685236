"""Record on the nodes of a Ray cluster, seen from the run's process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mcp_bench.bridge.engines.messages import Work
from mcp_bench.bridge.engines.referee import Referee, RefereeError
from mcp_bench.bridge.engines.referees import Referees
from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.recorder.runs.run_folder import RunFolder


class OnRay(Referees):
    """One process, Ray's driver, in the place of the referee processes. See `Engine`."""

    module = "mcp_bench.bridge.engines.on_ray.driver"

    def __init__(
        self, setup: Setup, run: RunFolder, address: str | None, say: Callable[[str], object]
    ) -> None:
        """Use the cluster at `address` (`HOST:PORT`), or the one that this machine is a node of."""
        super().__init__(setup, run, 1, say)
        self._address = address or "auto"

    def _work(self, part: Path) -> Work:
        work = super()._work(part)
        needs = sorted({planned.needs for planned in work.run.plan})
        # each order has its episode: a plan of 100,000 would travel to each node
        run = work.run.model_copy(update={"plan": []})
        return work.model_copy(update={"run": run, "apart": True, "address": self._address, "needs": needs})

    async def _replace(self, lost: Referee) -> None:
        await lost.gone()
        raise RefereeError(f"the connection to the Ray cluster was lost ({lost.how_it_ended()})")

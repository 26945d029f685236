"""What records the attempts of a run, and the simplest engine: the run's own process."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

import anyio

from mcp_bench.bridge.engines.messages import Order
from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.episode.episode import Outcome, run_episode
from mcp_bench.bridge.process.agent import end_all_at_once
from mcp_bench.bridge.process.fork_server_process import ForkServer
from mcp_bench.bridge.process.orphans import adopt_orphans
from mcp_bench.bridge.wire.episode_folder import remove_all
from mcp_bench.plugins.own_clients import environment as client_environment
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.runs.run_folder import RunFolder


class Engine(Protocol):
    """Records attempts, several at a time. Use it as a context manager around all of them.

    When the context ends, everything that was recorded is in the run's folder.
    """

    @property
    def calls_made(self) -> int:
        """Tool calls recorded so far, those of attempts in progress included."""
        ...

    async def attempt(self, planned: PlannedEpisode, number: int, *, claims_count: bool) -> Outcome:
        """Record attempt `number` at an episode, and return when it is in the run's folder.

        If the caller is cancelled, the agent is ended and what was recorded is kept.

        Args:
            planned: the episode.
            number: of the attempt.
            claims_count: see `run_episode`.

        Raises:
            BenchError: the recording cannot be written.
        """
        ...

    def end_at_once(self) -> None:
        """End all agents and other processes, outside the event loop, which is abandoned."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ThisProcess:
    """The engine that records in this process, straight into the run's folder."""

    def __init__(self, setup: Setup, run: RunFolder) -> None:
        self._setup = setup
        self._run = run
        self._before = run.recording.calls_made
        self._fork_server = ForkServer.kept or ForkServer()

    @property
    def calls_made(self) -> int:
        return self._run.recording.calls_made - self._before

    async def attempt(self, planned: PlannedEpisode, number: int, *, claims_count: bool) -> Outcome:
        return await run_episode(self._setup, self._run, planned, number, claims_count=claims_count)

    async def obey(self, order: Order) -> Outcome:
        """Record an attempt that the run's process has ordered. See `attempt`."""
        assert order.planned is not None  # noqa: S101 - the others end attempts
        return await self.attempt(order.planned, order.number, claims_count=order.claims_count)

    def end_at_once(self) -> None:
        end_own_processes()

    async def __aenter__(self) -> Self:
        adopt_orphans()
        self._setup = replace(self._setup, fork_server=await self._fork_server.__aenter__())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await self._fork_server.__aexit__(kind, error, trace)
            finally:
                if self._setup.benchmark is not None:
                    await self._setup.benchmark.aclose()


def end_own_processes() -> None:
    """End the agents that this process has started, and remove what they had on the disk."""
    end_all_at_once()
    remove_all()
    client_environment.remove()

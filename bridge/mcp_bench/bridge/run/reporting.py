"""A display that also reports the events of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.episode.episode import Outcome
from mcp_bench.bridge.run.display import Display
from mcp_bench.bridge.run.events import EpisodeEnded, EpisodeStarted, Event, RunStarted
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import Usage


class ReportingDisplay(Display):
    """A `Display` that passes on what it shows."""

    def __init__(
        self,
        total: int,
        jobs: int,
        title: str,
        calls: Callable[[], int],
        *,
        setup: Setup,
        run: RunFolder,
        report: Callable[[Event], None],
        status: Callable[[dict[str, Any]], None],
    ) -> None:
        """Add `report`, which gets the events, and `status`, which gets a line whenever it has changed."""
        super().__init__(total, jobs, title, calls)
        self._run = run.id
        self._report = report
        self._status = status
        self._last_status = ""
        info = run.info
        report(RunStarted(run.id, info.agent, info.benchmark, info.model, setup.level.name, total))

    def began(self, planned: PlannedEpisode, retries: int) -> None:
        super().began(planned, retries)
        self._report(EpisodeStarted(self._run, planned.task, planned.seed, planned.repeat, retries))

    def ended(self, planned: PlannedEpisode, outcome: Outcome, wait: float | None) -> None:
        super().ended(planned, outcome, wait)
        usage = outcome.usage or Usage()
        grade = None if outcome.invalid is not None else outcome.grade
        self._report(
            EpisodeEnded(
                run=self._run,
                episode=outcome.episode,
                task=outcome.task,
                seed=planned.seed,
                repeat=planned.repeat,
                partial=None if grade is None else grade.partial,
                strict=None if grade is None else grade.strict,
                invalid=outcome.invalid,
                detail=outcome.detail,
                termination=outcome.termination,
                calls=outcome.calls,
                seconds=outcome.seconds,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cost_usd=usage.cost_usd,
                retried=wait is not None,
                done=self.progress.done,
                total=self._pace.total,
            )
        )

    def tick(self) -> None:
        super().tick()
        text = self.status_line()
        if text != self._last_status:
            self._last_status = text
            self._status({"status": text})

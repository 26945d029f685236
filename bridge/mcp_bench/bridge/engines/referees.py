"""The engine that records in several referee processes on this machine.

Each process records into a part of the run (`mcp_bench.recorder.runs.parts`). This process schedules, takes
in each episode when it has ended, and shows the progress: there is one budget, one circuit breaker and one
display. A process that is lost costs its open attempts, which are stored as invalid and can be retried;
another process takes its place.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from mcp_bench.bridge.engines.engine import end_own_processes
from mcp_bench.bridge.engines.messages import OUTCOME, Order, Work
from mcp_bench.bridge.engines.referee import MODULE, Open, Referee, RefereeError, end_at_once
from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.episode.episode import Outcome
from mcp_bench.bridge.process.agent import SILENCE_SECONDS
from mcp_bench.bridge.process.orphans import adopt_orphans, end_orphans
from mcp_bench.recorder.records import REFEREE_DIED, PlannedEpisode
from mcp_bench.recorder.runs.parts import (
    last_frame,
    new_part,
    take_in,
    take_in_all,
    take_in_dead,
    take_in_moved,
)
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.grading import Grade


class Referees:
    """Several referee processes. See `Engine`."""

    module = MODULE
    """What each of them runs."""

    def __init__(self, setup: Setup, run: RunFolder, number: int, say: Callable[[str], object]) -> None:
        """Record with `number` processes; `say` shows a line to the user."""
        self._setup = setup
        self._run = run
        self._number = number
        self._say = say
        self._ids = count(1)
        self._referees: list[Referee] = []
        self._calls_before = 0
        """Of processes that are gone."""
        self._ending = False

    @property
    def calls_made(self) -> int:
        return self._calls_before + sum(referee.calls for referee in self._referees)

    async def __aenter__(self) -> Self:
        adopt_orphans()
        self._more = anyio.Event()
        self._taking = anyio.Lock()
        self._tasks = anyio.create_task_group()
        if self._setup.benchmark is not None:
            await self._setup.benchmark.aclose()  # each process has its own
        await self._tasks.__aenter__()
        try:
            async with anyio.create_task_group() as starting:
                for _ in range(self._number):
                    starting.start_soon(self._start)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = True
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as ending:
                for referee in self._referees:
                    ending.start_soon(referee.end)
            self._calls_before, self._referees = self.calls_made, []
            async with self._taking:
                await anyio.to_thread.run_sync(take_in_all, self._run)
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    def end_at_once(self) -> None:
        end_at_once(self._referees, SILENCE_SECONDS + 2)
        end_own_processes()

    async def attempt(self, planned: PlannedEpisode, number: int, *, claims_count: bool) -> Outcome:
        while not self._referees:
            await self._more.wait()
        await anyio.lowlevel.checkpoint_if_cancelled()
        referee = min(self._referees, key=lambda one: len(one.open))
        attempt, name = Open(planned, number), next(self._ids)
        referee.open[name] = attempt
        with anyio.CancelScope(shield=True):  # only an attempt that was ordered reports its end
            after = await anyio.to_thread.run_sync(last_frame, referee.part)
            await referee.send(Order(id=name, planned=planned, number=number, claims_count=claims_count))
        try:
            await attempt.over.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await referee.send(Order(id=name))
                await attempt.over.wait()
            raise
        if attempt.report is None or attempt.report.lost is not None:
            return await anyio.to_thread.run_sync(self._after_loss, attempt)
        if attempt.report.error is not None or attempt.report.outcome is None:
            raise RefereeError(
                attempt.report.error or "a referee process ended an attempt that it should not"
            )
        outcome = OUTCOME.validate_json(attempt.report.outcome)
        with anyio.CancelScope(shield=True):
            async with self._taking:
                await anyio.to_thread.run_sync(self._take_in, attempt, referee.part, outcome.episode, after)
        return outcome

    def _take_in(self, attempt: Open, part: Path, episode: str, after: int) -> None:
        folder = attempt.report.folder if attempt.report else None
        if folder is None:
            take_in(self._run, part, {episode}, after=after)
        else:
            take_in_moved(self._run, Path(folder), (attempt.planned, attempt.number))

    def _work(self, part: Path) -> Work:
        canaries = self._run.grades.canaries()
        return Work(run=self._run.info, part=str(part), base_url=self._setup.base_url, canaries=canaries)

    async def _start(self) -> None:
        referee = await Referee.start(self._work(new_part(self._run)), self.module)
        self._referees.append(referee)
        self._tasks.start_soon(self._listen, referee)
        self._more.set()

    async def _listen(self, referee: Referee) -> None:
        """Pass on what a process reports, until it is gone."""
        try:
            async for report in referee.reports():
                if report.error is not None and report.id is None:
                    raise RefereeError(report.error)
                if report.line is not None:
                    self._say(report.line)
                if report.calls is not None:
                    referee.calls = report.calls
                if report.id is not None:
                    attempt = referee.open.pop(report.id)
                    attempt.report = report
                    attempt.over.set()
            if not self._ending:
                await self._replace(referee)
        finally:
            for attempt in referee.open.values():
                attempt.over.set()

    async def _replace(self, lost: Referee) -> None:
        """Keep what a lost process has recorded, and start another one."""
        self._referees.remove(lost)
        self._calls_before += lost.calls
        if not self._referees:
            self._more = anyio.Event()
        await lost.gone()
        how = lost.how_it_ended()
        self._say(f"A referee process was lost ({how}). Its open episodes are planned again")
        await anyio.to_thread.run_sync(end_orphans, lost.since)
        with anyio.CancelScope(shield=True):
            async with self._taking:
                await anyio.to_thread.run_sync(take_in_dead, self._run, lost.part)
        for attempt in lost.open.values():
            attempt.lost = how
        await self._start()

    def _after_loss(self, attempt: Open) -> Outcome:
        """Return how an attempt ended whose process was lost."""
        planned = attempt.planned
        why = attempt.report.lost if attempt.report else f"its referee process was lost: {attempt.lost}"
        slot = (planned.task, planned.seed, planned.repeat, attempt.number)
        found = next((one for one, *rest in self._run.recording.attempts() if tuple(rest) == slot), "")
        grade, calls, seconds = None, 0, 0.0
        if found:
            with RunReader(self._run.path) as reader:
                stored = reader.episode(found)
                calls, seconds = len(reader.calls(found)), stored.seconds or 0.0
            if stored.partial is not None and stored.strict is not None:
                grade = Grade(partial=stored.partial, strict=stored.strict, grader_version="")
        done = found in self._run.done()
        return Outcome(
            episode=found,
            task=planned.task,
            termination=None,
            invalid=None if done else REFEREE_DIED,
            detail=None if done else why,
            grade=grade,
            calls=calls,
            seconds=seconds,
        )

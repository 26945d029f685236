"""The engine of a referee process whose run is on another machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp_bench.bridge.engines.engine import ThisProcess
from mcp_bench.bridge.engines.messages import Order
from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.episode.episode import Outcome, run_episode
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.runs.run_folder import RunFolder


class Apart(ThisProcess):
    """Records each attempt in a folder of its own beside the part, and closes it when the attempt ends.

    A folder is named by the id of its order. What was recorded of a cancelled attempt is there, too.
    """

    def __init__(self, setup: Setup, part: RunFolder) -> None:
        super().__init__(setup, part)
        self._part = part
        self._open: dict[int, RunFolder] = {}
        self._calls = 0

    @property
    def calls_made(self) -> int:
        return self._calls + sum(run.recording.calls_made for run in self._open.values())

    async def obey(self, order: Order) -> Outcome:
        assert order.planned is not None  # noqa: S101 - the others end attempts
        with self._folder(order) as run:
            return await run_episode(
                self._setup, run, order.planned, order.number, claims_count=order.claims_count
            )

    @contextmanager
    def _folder(self, order: Order) -> Iterator[RunFolder]:
        info = self._part.info.model_copy(update={"plan": [order.planned]})
        path = self._part.path.with_name(str(order.id))
        try:
            (path / "logs").mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise StorageError(f"cannot write to {error.filename}: {error.strerror}") from error
        with RunFolder(path, info) as run:
            self._open[order.id] = run
            try:
                for canary in self._part.grades.canaries():
                    run.grades.put_canary(canary, now_us())
                yield run
            finally:
                self._calls += run.recording.calls_made
                del self._open[order.id]

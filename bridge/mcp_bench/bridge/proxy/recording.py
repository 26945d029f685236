"""The recording of one proxied session: a run with one ungraded episode."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.metadata import version

from mcp_bench.bridge.tap.pump import Lines
from mcp_bench.bridge.tap.traffic import client_info
from mcp_bench.bridge.wire.foreign_server import BENCHMARK, NO_SPLIT, NO_VERSION
from mcp_bench.recorder.conversations.align import align
from mcp_bench.recorder.frames.body import Body
from mcp_bench.recorder.frames.jsonrpc import Frame, same_id
from mcp_bench.recorder.records import (
    Direction,
    EpisodeEnd,
    EpisodeStart,
    RunInfo,
    Termination,
    new_id,
    now_us,
)
from mcp_bench.recorder.run_settings import Durability, RunSettings
from mcp_bench.recorder.runs.run_folder import RunFolder

AGENT = "proxy"
"""Agent of the run. The episode has the name that the client reports."""
TASK = "session"
"""Task of an episode outside any benchmark."""
CONNECTION = 1


def proxy_run(server: Sequence[str], durability: Durability) -> RunInfo:
    """Return the description of a proxy's run. `server` is a command, or only a URL."""
    return RunInfo(
        id=new_id("run"),
        created_us=now_us(),
        benchmark=BENCHMARK,
        benchmark_version=NO_VERSION,
        agent=AGENT,
        agent_version=version("mcp-bench-kit"),
        isolation="none",
        home="native",
        tools="all",
        graded=False,
        settings=RunSettings(server=list(server), durability=durability),
    )


class SessionRecording:
    """Store frames as they arrive, from any thread, until `end`."""

    lines = Lines

    def __init__(self, server: Sequence[str], durability: Durability) -> None:
        """Begin a run and its episode.

        Raises:
            StorageError: the recording cannot be created.
        """
        self._run = RunFolder.create(proxy_run(server, durability))
        self._lock = threading.Lock()
        self.client_known = False
        """Whether the client has said who it is, as it does in its first frame."""
        self._open: set[str | None] = set()
        self.episode = new_id("ep")
        self._run.recording.begin_episode(
            EpisodeStart(
                id=self.episode, task=TASK, split=NO_SPLIT, domain=BENCHMARK, prompt="", started_us=now_us()
            )
        )

    def append_unparsed(self, direction: Direction, bodies: Sequence[Body]) -> None:
        """Return when these frames are stored, so that they may pass. Call `parse_pending` afterwards.

        Raises:
            StorageError: they cannot be stored.
        """
        self._run.recording.append_unparsed(self.episode, CONNECTION, direction, bodies)

    def parse_pending(self) -> bool:
        """Parse the stored frames; return True if no request of the client is open."""
        with self._lock:
            for direction, body, frame in self._run.recording.parse_pending():
                for message in frame.items or (frame,):
                    self._note(direction, body, message)
            return not self._open

    def _note(self, direction: Direction, body: Body, message: Frame) -> None:
        if message.kind == "response" and direction == "server":
            self._open.discard(same_id(message.rpc_id, self._open))
        elif message.kind == "request" and direction == "client":
            self._open.add(message.rpc_id)
            if not self.client_known and isinstance(body, bytes) and (info := client_info(body)):
                self.client_known = True
                self._run.recording.identify(self.episode, *info)
        elif message.cancels is not None and direction == "client":  # the server cancels its own requests
            self._open.discard(same_id(message.cancels, self._open))

    def end(
        self, termination: Termination | None, invalid: str | None, detail: str | None, exit_code: int | None
    ) -> None:
        """End the episode and close the run.

        Args:
            termination: How the session ended.
            invalid: Reason why the episode is invalid, if it is.
            detail: Explanation of `invalid`.
            exit_code: Exit code of the server.

        Raises:
            StorageError: the end cannot be stored.
        """
        with self._lock:
            recording = self._run.recording
            try:
                messages = align("", [], recording.recorded_calls(self.episode))
                recording.end_episode(
                    self.episode,
                    EpisodeEnd(
                        termination=termination,
                        invalid=invalid,
                        invalid_detail=detail,
                        exit_code=exit_code,
                        connections=1,
                        ended_us=now_us(),
                    ),
                    messages,
                )
            finally:
                self._run.close()

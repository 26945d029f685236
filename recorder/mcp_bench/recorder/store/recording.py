"""Record one run: the entry to its frames, calls, episodes and flags while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcp_bench.recorder.records import EpisodeEnd, EpisodeStart
from mcp_bench.recorder.store.episode_store import MAX_FLAGS, EpisodeStore
from mcp_bench.recorder.store.frame_log import FrameLog
from mcp_bench.recorder.store.observers import Observers, Transport
from mcp_bench.recorder.trajectory import Message

__all__ = ["MAX_FLAGS", "Recording"]


class Recording:
    """The recordings of one run, open for writing.

    Frames and calls are in a `FrameLog`, episodes and flags in an `EpisodeStore`. Safe to use from several
    threads. Every method may raise StorageError; everything stored before stays intact.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the database at `path`, and commit what an earlier writer left in its journal."""
        self.path = path
        self.observers = Observers()
        self._frames = frames = FrameLog(path, self.observers)
        self._episodes = episodes = EpisodeStore(frames)
        self.key = frames.key
        self.signer = frames.signer
        self.writer = frames.writer

        # Methods of the parts are bound, not wrapped: a wrapper would cost each frame one more call.
        self.store = frames.store
        self.store_frame = frames.store_frame
        self.append_unparsed = frames.append_unparsed
        self.parse_pending = frames.parse_pending
        self.mark_executed = frames.mark_executed
        self.close_connection = frames.close_connection
        self.identify = frames.name_agent
        self.flush = frames.flush
        self.set_durability = frames.set_durability
        self.continue_after = frames.continue_after

        self.add_run = episodes.add_run
        self.info = episodes.info
        self.seal = episodes.seal
        self.unseal = episodes.unseal
        self.reported_costs = episodes.reported_costs
        self.mark_died = episodes.mark_died
        self.attempts = episodes.attempts
        self.began = episodes.began
        self.ended = episodes.ended
        self.sealed = episodes.sealed
        self.recorded_calls = episodes.recorded_calls
        self.listed_tools = episodes.listed_tools
        self.flag = episodes.flag
        self.flags = episodes.flags

    def close(self) -> None:
        """Commit everything and close. Frames that cannot be committed stay in the journal."""
        try:
            self._frames.close()
        finally:
            self.observers.notify("close")

    @property
    def calls_made(self) -> int:
        """Tool calls recorded so far, open ones included."""
        return self._frames.calls.last

    def begin_episode(self, start: EpisodeStart) -> None:
        """Store an attempt that begins."""
        self._episodes.begin(start)
        self.observers.notify("episode_begun", self._episodes.info(), start)

    def end_episode(self, episode: str, end: EpisodeEnd, messages: Sequence[Message]) -> None:
        """Store how an episode ended and its conversation, and seal both. Its connections count as closed.

        An episode that began without tools gets those that its server listed.
        """
        self._episodes.end(episode, end, messages)
        self.observers.notify("episode_ended", episode, end)

    def connected(
        self, episode: str | None, connection: int, transport: Transport, session: str | None
    ) -> None:
        """Report a new connection to observers, before its frames. Nothing is stored."""
        self.observers.notify("connected", episode, connection, transport, session)

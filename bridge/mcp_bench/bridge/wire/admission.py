"""Who is let in to an episode, and whose attempt it was where somebody is not."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from typing import Self

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from mcp_bench.recorder.records import FlagKind
from mcp_bench.recorder.store.recording import Recording

TOKEN_SECONDS = 10.0
TOKEN_BYTES = 256
"""What is read of a first line, at most, to find the token."""

_open: dict[str, Gate] = {}
"""The episodes of this referee that are under way, by id."""
_over: dict[bytes, str] = {}
"""Which episode a token belonged to, once that is over: it opens nothing any more."""


class Gate:
    """The way in to one episode. A context manager: its token dies with it."""

    def __init__(self, episode: str, token: str, recording: Recording) -> None:
        self.episode = episode
        self.token = token
        self.root: int | None = None
        """The process that all of the agent's descend from; nobody gets in before it is known."""
        self._recording = recording

    def __enter__(self) -> Self:
        _open[self.episode] = self
        return self

    def __exit__(self, *_: object) -> None:
        del _open[self.episode]
        _over[self.token.encode()] = self.episode

    def flag(self, kind: FlagKind, line: Collection[int], detail: str) -> None:
        """Store that somebody was refused; `line` is who it was, and who that descends from.

        It counts against the agent that it came from, whoever's door that knocked on. Where it came from none
        of ours, it counts against this episode if the token was right: only its agent was given that.
        """
        whose = next((gate.episode for gate in _open.values() if gate.root in line), None)
        if whose is None and kind == "foreign_peer":
            whose = self.episode
        if whose != self.episode:
            detail = f"{detail}, at {self.episode}"
        self._recording.flag(whose, kind, detail)


def refusal(shown: bytes, token: str, root: int | None, line: Collection[int]) -> FlagKind | None:
    """Say why a peer is not let in, if it is not: it has to show the token, and to descend from `root`."""
    if not hmac.compare_digest(shown, token.encode()):
        return "replay" if shown in _over else "wrong_token"
    return None if root in line else "foreign_peer"


def describe_token(shown: bytes) -> str:
    """Say whose token was shown. What is shown is never repeated: it may nearly be right."""
    if shown in _over:
        return f"the token of {_over[shown]}, which is over"
    whose = next((gate.episode for gate in _open.values() if gate.token.encode() == shown), None)
    return f"the token of {whose}" if whose else "an unknown token" if shown else "no token"


async def shown_token(source: BufferedByteReceiveStream) -> bytes | None:
    """Return the first line that a peer sends, empty where that is none; None where it goes away without a
    word, as a process does that is ended while it starts. Its next bytes are left in `source`."""
    with anyio.move_on_after(TOKEN_SECONDS):
        try:
            return await source.receive_until(b"\n", TOKEN_BYTES)
        except anyio.DelimiterNotFound:
            return b""
        except (anyio.IncompleteRead, anyio.BrokenResourceError):
            return b"" if source.buffer else None
    return b""

"""Admission to an episode: check the token and the process, and attribute refused attempts."""

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
"""Longest first line that is read for the token."""

_open: dict[str, Gate] = {}
"""Running episodes of this referee, by id."""
_over: dict[bytes, str] = {}
"""Tokens of past episodes, and the episodes they belonged to. They no longer admit anyone."""


class Gate:
    """The admission to one episode. Leaving the context invalidates the token."""

    def __init__(self, episode: str, token: str, recording: Recording) -> None:
        self.episode = episode
        self.token = token
        self.root: int | None = None
        """Root of the agent's process tree. Until it is set, every peer is refused."""
        self._recording = recording

    def __enter__(self) -> Self:
        _open[self.episode] = self
        return self

    def __exit__(self, *_: object) -> None:
        del _open[self.episode]
        _over[self.token.encode()] = self.episode

    def flag(self, kind: FlagKind, line: Collection[int], detail: str) -> None:
        """Store a flag for a refused attempt.

        The flag is attributed to the agent that made the attempt, even if it targeted another episode. An
        attempt by an unknown process is attributed to this episode if the token was right, because only its
        agent knows the token. Otherwise it belongs to no episode. It is stored where its episode is recorded,
        which can be another folder than this episode's.

        Args:
            kind: Why the attempt was refused.
            line: Ids of the peer's process and all its ancestors.
            detail: Text for the operator.
        """
        owner = next((gate for gate in _open.values() if gate.root in line), None)
        if owner is None and kind == "foreign_peer":
            owner = self
        if owner is not self:
            detail = f"{detail}, at {self.episode}"
        (owner or self)._recording.flag(owner.episode if owner else None, kind, detail)


def refusal(shown: bytes, token: str, root: int | None, line: Collection[int]) -> FlagKind | None:
    """Return why a peer is refused, or None if it shows the token and descends from `root`."""
    if not hmac.compare_digest(shown, token.encode()):
        return "replay" if shown in _over else "wrong_token"
    return None if root in line else "foreign_peer"


def describe_token(shown: bytes) -> str:
    """Describe the token that was shown without repeating it, because it may almost be right."""
    if shown in _over:
        return f"the token of {_over[shown]}, which has ended"
    episode = next((gate.episode for gate in _open.values() if gate.token.encode() == shown), None)
    return f"the token of {episode}" if episode else "an unknown token" if shown else "no token"


async def shown_token(source: BufferedByteReceiveStream) -> bytes | None:
    """Return the first line of a peer, which should be the token.

    The line is empty if it is too long, incomplete or late. None means that the peer left without sending
    anything, as a process does that is killed while it starts. Later bytes stay in `source`.
    """
    with anyio.move_on_after(TOKEN_SECONDS):
        try:
            return await source.receive_until(b"\n", TOKEN_BYTES)
        except anyio.DelimiterNotFound:
            return b""
        except (anyio.IncompleteRead, anyio.BrokenResourceError):
            return b"" if source.buffer else None
    return b""

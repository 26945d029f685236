"""Check the order of a run's frames: each is linked to the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from mcp_bench.recorder.store.signatures import NO_LINK, Row, Signer

NAMED = 60
"""At most this many missing frames are reported per gap."""


class FrameOrder:
    """Checks the frames of a run, passed in the order of their numbers."""

    def __init__(self, signer: Signer) -> None:
        self.count = 0
        self.changes: list[tuple[int, Literal["edited", "removed", "added"], str]] = []
        """Number of the frame, its change, and details."""
        self._signer = signer
        self._links: dict[int, str] = {}
        self._before = [NO_LINK]
        """The link of the last genuine frame; if that link was changed, also the one it should have."""
        self._last = 0
        """The number of the last frame."""
        self._doubtful: dict[int, bytes] = {}
        """Links of the frames since then, whose contents were changed. Some links may be genuine."""

    def add(self, row: Row) -> bool:
        """Check the next frame; return whether its contents are genuine."""
        number, own_tag, own_link = int(row.key), _bytes(row.tag), _bytes(row.link)
        self.count += 1
        self._links[number] = own_link.hex()
        genuine = self._signer.tag("frames", row.values) == own_tag
        if not genuine:
            self._doubtful[number] = own_link
        else:
            self._follow(number, own_tag, own_link)
        self._last = number
        return genuine

    def _follow(self, number: int, own_tag: bytes, own_link: bytes) -> None:
        def follows(before: bytes) -> bool:
            return self._signer.link(before, own_tag) == own_link

        linked = [doubtful for doubtful, its in self._doubtful.items() if follows(its)]
        if linked:  # frames up to the one that this frame is linked to existed
            self._explain(through=linked[-1])
        elif any(follows(before) for before in self._before) or self._doubtful:
            self._explain(through=0)
        elif self._last + 1 < number:
            self._missing(range(self._last + 1, number))
        else:
            self.changes.append((number, "edited", "its link"))
            self._before = [own_link, *(self._signer.link(before, own_tag) for before in self._before)]
            return
        self._before, self._doubtful = [own_link], {}

    def _explain(self, through: int) -> None:
        for number in self._doubtful:
            self.changes.append((number, "edited" if number <= through else "added", ""))

    def _missing(self, numbers: Iterable[int]) -> None:
        self.changes += [(number, "removed", "") for number in list(numbers)[:NAMED]]

    def end(self, sealed: Mapping[str, tuple[int, str]], run: str) -> None:
        """Compare the frames with the last frame and link in each seal. `sealed` is by the seal's subject."""
        last_sealed = max((last for last, _ in sealed.values()), default=0)
        self._explain(through=last_sealed)
        self._doubtful = {}
        for last, its_link in sealed.values():
            if last in self._links and self._links[last] != its_link:
                self.changes.append((last, "edited", "its link"))
        if last_sealed > self._last:
            self._missing(range(self._last + 1, last_sealed + 1))
        if run in sealed:
            behind = [number for number in self._links if number > sealed[run][0]]
            self.changes += [(number, "added", "behind the end") for number in behind[:NAMED]]


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""

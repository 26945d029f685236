"""Scan a recorded run again with the current scanner, or for the first time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.runs.lock import is_being_written
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.scan.scan import scan
from mcp_bench.recorder.store.keys import key_for
from mcp_bench.recorder.taint import Evidence, Scan
from mcp_bench.recorder.verify.verify import verify


class NotScannedError(StorageError):
    """A run must not be scanned; the message says why."""


@dataclass
class Rescan:
    """The result of scanning a run."""

    run: str
    verdicts: Counter[str] = field(default_factory=Counter)
    """Episodes that have ended, by verdict."""
    changed: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By episode, the old verdict and the new one, if they differ."""


def rescan(path: Path) -> Rescan:
    """Scan the episodes of the run in the folder `path` that have ended, and store the verdicts.

    Evidence of earlier scans is kept, even if this scan does not find it.

    Raises:
        NotScannedError: the run is being recorded, or is not verified: a verdict would put a new seal on
            rows that somebody has changed.
        StorageError: it cannot be read or written.
    """
    if is_being_written(path):
        raise NotScannedError(f"{path.name} is being recorded: scan it when it is over")
    checked = verify(path, key_for(path))
    if checked.state != "verified":
        detail = checked.detail or "see `mcp-bench verify`"
        raise NotScannedError(f"{path.name} is not scanned, since it is not verified: {detail}")
    found = Rescan(path.name)
    scans: dict[str, Scan] = {}
    with RunReader(path) as reader:
        reader.find_frames()
        for episode in map(reader.episode, reader.episode_ids()):
            if episode.ended_us is None:
                continue
            known = [Evidence(**row) for row in reader.evidence_of_taint(episode.id)]
            scans[episode.id] = now = scan(reader, episode.id).with_earlier(known)
            found.verdicts[now.verdict] += 1
            if now.verdict != episode.taint:
                found.changed[episode.id] = (episode.taint, now.verdict)
    with RunFolder.reopen(path) as folder:
        folder.grades.put_scans(scans, now_us())
    return found

"""The verdict on an episode that is over: did its agent look for its grade?"""

from __future__ import annotations

import logging

import anyio

from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.scan.scan import scan
from mcp_bench.recorder.store.reader import RunReader
from mcp_bench.recorder.store.run_folder import RunFolder
from mcp_bench.recorder.taint import Scan

logger = logging.getLogger(__name__)


async def examine(run: RunFolder, episode: str) -> None:
    """Scan an episode and seal the verdict beside the grade. A scan that fails makes it unknown.

    Raises:
        StorageError: the verdict cannot be stored.
    """
    try:
        with anyio.CancelScope(shield=True):  # the grade comes behind it, and is not to be lost
            verdict = await anyio.to_thread.run_sync(examined, run, episode)
    except Exception:  # nothing that an agent has written may cost the episode its grade
        logger.exception("episode %s could not be scanned", episode)
        verdict = Scan("unknown")
    run.grades.put_scan(episode, verdict, now_us())


def examined(run: RunFolder, episode: str) -> Scan:
    """Scan with a connection of its own, so that other episodes go on being recorded."""
    run.recording.flush()
    with RunReader(run.path) as reader:
        return scan(reader, episode)

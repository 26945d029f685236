"""An allocation of Slurm, so that all sandboxes of an episode are on one node.

`salloc` gets the allocation and holds it while its command runs; `srun --overlap` starts each keeper as a
step of it, with our standard streams. No folder has to be shared (https://slurm.schedmd.com/srun.html).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio

from mcp_bench.bridge.process.agent import LaunchError, piped_process
from mcp_bench.bridge.sandbox.runners.remote import CLOSE_SECONDS, ENVIRONMENT, RunnerLostError, last_line
from mcp_bench.servers.left_folders import temporary_folder

HOLD = 'echo "job $SLURM_JOB_ID"; exec cat'
"""Runs beside `salloc`. It ends, and with it the allocation, when we close its stdin or die."""
QUEUE_SECONDS = 600.0


@asynccontextmanager
async def allocated(
    machine: str, options: Sequence[str], on_lost: Callable[[str], None]
) -> AsyncIterator[list[str]]:
    """Wait in the queue for one node, and yield the beginning of a command that runs on it.

    Args:
        machine: what the operator calls the cluster.
        options: of `salloc`.
        on_lost: called with the reason when there was no allocation.

    Raises:
        RunnerLostError: there was no allocation.
    """
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    with temporary_folder("mcp-bench-connection-") as folder:
        log = folder / "salloc.log"
        argv = ["salloc", "--nodes=1", "--ntasks=1", *options, "sh", "-c", HOLD]
        try:
            async with piped_process(log) as (process, requests, replies):
                await process.launch(argv, environment, folder)
                said = b""
                try:
                    with anyio.fail_after(QUEUE_SECONDS):
                        while not said.endswith(b"\n"):
                            said += await replies.receive()
                except (TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError):
                    raise LaunchError(f"no allocation: {last_line(log) or 'salloc ended'}") from None
                job = said.decode(errors="replace").split()[-1]
                try:
                    yield ["srun", f"--jobid={job}", "--overlap", "--ntasks=1", "--quiet", "--unbuffered"]
                finally:
                    await requests.aclose()
                    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                        await process.wait()
        except LaunchError as error:
            on_lost(str(error))
            raise RunnerLostError(machine, str(error)) from error

"""How an attempt ends: its agent's process, by itself or because it must, and its world."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from mcp_bench.bridge.process.agent import SILENCE_SECONDS, AgentProcess
from mcp_bench.bridge.process.in_process import InProcessAgent
from mcp_bench.recorder.records import Termination
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.contracts import World
from mcp_bench.servers.mcp_server.cancellation import is_own_failure

logger = logging.getLogger(__name__)
CLOSE_SECONDS = 30.0
STOP_SECONDS = 3.0
"""Between SIGTERM and SIGKILL, so that an agent can finish writing its transcript."""
LAST_WORDS_SECONDS = 15.0
"""For an agent whose world is over, to say what it has to say and to exit."""


async def until_over(
    process: AgentProcess | InProcessAgent, timeout: float, cut_off: Callable[[], Awaitable[Termination]]
) -> Termination:
    """Wait for the agent to exit; stop it after `timeout` seconds, or when the attempt must end.

    If the world is over, the agent has some seconds for its last words.
    """
    cut: list[Termination] = []

    async def timed_out() -> Termination:
        await anyio.sleep(timeout)
        return "timeout"

    async def cut_after(event: Callable[[], Awaitable[Termination]]) -> None:
        reason = await event()
        if reason == "world_over":
            await anyio.sleep(LAST_WORDS_SECONDS)
        cut.append(reason)
        await process.stop(STOP_SECONDS)
        await anyio.sleep(STOP_SECONDS + SILENCE_SECONDS)
        watch.cancel_scope.cancel()  # its supervisor does not work any more; ending kills it

    async with anyio.create_task_group() as watch:
        watch.start_soon(cut_after, timed_out)
        watch.start_soon(cut_after, cut_off)
        await process.wait()
        watch.cancel_scope.cancel()
    if cut:
        return cut[0]
    return "agent_exit" if process.exit_code == 0 else "crash"


def note_ending(run: RunFolder, episode: str, process: AgentProcess | InProcessAgent) -> None:
    """Store why an agent was ended, and what could not be. It is the agent's doing, so it is graded."""
    if process.over:
        run.recording.flag(episode, "over_limit", process.over)
    if process.left:
        run.recording.flag(episode, "not_ended", f"{process.left} processes could not be ended")


async def close(world: World) -> None:
    """Close a world once nothing needs it. Errors are logged, and a time limit applies."""
    with anyio.move_on_after(CLOSE_SECONDS, shield=True) as scope:
        try:
            await world.close()
        except BaseException as error:
            if not is_own_failure(error):
                raise
            logger.exception("a world could not be closed")
    if scope.cancelled_caught:
        logger.warning("a world was not closed within %.0f seconds", CLOSE_SECONDS)

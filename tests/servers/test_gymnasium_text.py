"""Gymnasium's toy-text games in their worker: the best policy reaches par, and doing nothing earns nothing."""

import pytest

from mcp_bench.servers.adapters.remotes import GYMNASIUM
from mcp_bench.servers.mcp_server.world_session import WorldSession

pytest.importorskip("gymnasium", reason="gymnasium is an extra")
pytestmark = [pytest.mark.component, pytest.mark.anyio]


async def test_reference_reaches_par_in_each_family() -> None:
    tasks = list(GYMNASIUM.tasks(limit=6))
    assert {task.domain for task in tasks} == {"frozen-lake", "frozen-lake-slippery", "taxi"}
    for task in tasks:
        session = WorldSession(await GYMNASIUM.open(task.id, seed=5))
        assert (await session.call("look", {})).text == task.prompt
        assert (await session.world.grade("")).partial == 0
        reference = GYMNASIUM.reference(task.id)
        assert reference is not None
        for call in reference.calls:
            result = await session.call(call.name, call.arguments)
            assert not result.is_error and "reward" not in result.text
        assert result.done and (await session.world.grade("")).strict
        await session.world.close()
    await GYMNASIUM.aclose()

"""AutomationBench's own package, where it is installed: `MCP_BENCH_PYTHON_AUTOMATIONBENCH` names a Python that has it."""

import pytest

from mcp_bench.servers.adapters.remotes import AUTOMATIONBENCH
from mcp_bench.servers.mcp_server.world_session import WorldSession
from tests.support.requirements import needs

pytestmark = [pytest.mark.component, pytest.mark.anyio]

REASON = AUTOMATIONBENCH.missing()


def test_without_the_package_its_command_is_shown() -> None:
    if REASON is None:
        pytest.skip("it is installed")
    assert "'automationbench'" in REASON
    assert "github.com/zapier/AutomationBench" in AUTOMATIONBENCH.install


@needs("automationbench", REASON is None, str(REASON))
async def test_the_real_package_opens_and_grades() -> None:
    """Not run by us so far: the package is on no index."""
    try:
        listed = {task.domain: task for task in AUTOMATIONBENCH.tasks("all")}
        assert {"sales", "marketing", "operations", "support", "finance", "hr", "simple"} <= listed.keys()
        assert {"api_search", "api_fetch", "base64_encode"} == {one.name for one in AUTOMATIONBENCH.tools()}
        for task in listed.values():
            session = WorldSession(await AUTOMATIONBENCH.open(task.id))
            assert (await session.call("api_search", {"query": "send"})).text
            assert not (await session.world.grade("")).strict, task.id
            await session.world.close()
    finally:
        await AUTOMATIONBENCH.aclose()

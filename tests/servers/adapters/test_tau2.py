"""tau2-bench in its own environment: the oracle solves, doing nothing does not, and a customer answers.

It runs where `MCP_BENCH_PYTHON_TAU2` names a Python that has inspect-evals: see docs/benchmarks/elsewhere.md.
"""

from collections.abc import AsyncIterator, Sequence

import pytest

from mcp_bench.servers.adapters.remotes import TAU2
from mcp_bench.servers.contracts import VACUOUS, ChatMessage, Converses, ToolCall, ToolSpec
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.needs import Role
from mcp_bench.servers.remote import RemoteBenchmark

pytestmark = [
    pytest.mark.component,
    pytest.mark.anyio,
    pytest.mark.skipif(TAU2.missing() is not None, reason="inspect-evals is not installed"),
]
UNSOLVED: set[str] = set()


class Customer:
    """Plays the customer: looks at the phone, answers, and leaves."""

    def __init__(self) -> None:
        self.asked: list[list[ChatMessage]] = []
        self.answers = [
            ChatMessage(role="assistant", calls=(ToolCall(name="check_status_bar"),)),
            ChatMessage(role="assistant", content="There is no signal."),
            ChatMessage(role="assistant", content="###STOP###"),
        ]

    async def ask(
        self, role: Role, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()
    ) -> ChatMessage:
        assert role == "user" and any(tool.name == "check_status_bar" for tool in tools)
        self.asked.append(list(messages))
        return self.answers[len(self.asked) - 1]


@pytest.fixture
async def tau2() -> AsyncIterator[RemoteBenchmark]:
    yield TAU2
    await TAU2.aclose()


async def grades(tau2: RemoteBenchmark, task: str, host: Host = NO_HOST) -> tuple[float, bool]:
    """Return the credit for doing nothing, and whether the reference succeeds."""
    world = await tau2.open(task, host=host)
    nothing = (await world.grade("")).partial
    session = WorldSession(world)
    reference = tau2.reference(task)
    assert reference is not None
    for call in reference.calls:
        await session.call(call.name, call.arguments)
    solved = (await world.grade(reference.answer)).strict
    await world.close()
    return nothing, solved


async def test_the_oracle_solves_a_sample_of_each_domain(tau2: RemoteBenchmark) -> None:
    found = {task.domain: task for task in tau2.tasks("test")}
    assert set(found) == {"telecom-solo", "telecom", "retail", "airline"}
    assert found["telecom-solo"].needs == () and found["retail"].needs == ("model:user",)
    assert tau2.reference(found["telecom"].id) is None
    for domain in ("telecom-solo", "retail", "airline"):
        assert await grades(tau2, found[domain].id) == (0.0, True), found[domain].id


async def test_nothing_is_credited_where_nothing_should_change(tau2: RemoteBenchmark) -> None:
    """In the first one, the customer wants to know something; in the second, the shop refuses the call."""
    assert await grades(tau2, "retail.24") == (0.0, True)
    assert await grades(tau2, "retail.12") == (1.0, True)
    assert "retail.12" not in {task.id for task in tau2.tasks("test")}
    assert VACUOUS in tau2.task("retail.12").tags and VACUOUS not in tau2.task("retail.24").tags


async def test_the_customer_uses_a_phone_and_leaves(tau2: RemoteBenchmark) -> None:
    task = next(one for one in tau2.tasks("test") if one.domain == "telecom")
    customer = Customer()
    world = await tau2.open(task.id, host=customer)
    assert isinstance(world, Converses)
    assert await world.reply("Hi! How can I help you?") == "There is no signal."
    assert [one.role for one in customer.asked[1]] == ["system", "user", "assistant", "tool"]
    assert await world.reply("Bye.") is None
    assert not (await world.grade("")).strict
    await world.close()


@pytest.mark.full
async def test_the_oracle_solves_every_task(tau2: RemoteBenchmark) -> None:
    unsolved = set()
    for split in ("train", "test"):
        for task in list(tau2.tasks(split)):
            if task.domain != "telecom":
                nothing, solved = await grades(tau2, task.id)
                assert nothing == 0.0, task.id
                unsolved |= set() if solved else {task.id}
    assert unsolved == UNSOLVED

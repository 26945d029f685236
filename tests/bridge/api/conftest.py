"""Fixtures: the caller's environment has the fixture package, and an agent that hangs."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.bench_commands import FIXTURES

HANGS_ON_NUMBERS = """
server = Server()
server.connect()
page = {{"colours": [("sky", "cerulean-sentinel"), ("grass", "viridian-sentinel")],
         "numbers": [("one", "uno-sentinel"), ("two", "due-sentinel")]}}
for name, notes in page.items():
    if name in CONFIG["prompt"]:
        for key, value in notes:
            server.call("write", key=key, value=value)
            if name == "numbers" and not os.path.exists({flag!r}):
                with open({ready!r}, "w") as ready:   # blocks until the test reads
                    ready.write(str(os.getpid()))
                import time; time.sleep(600)
"""


@dataclass
class Hanging:
    """An agent that solves the first task and hangs in the second one until `flag` exists."""

    options: dict[str, str]
    flag: Path
    ready: Path

    def agent(self) -> int:
        """Wait until it hangs; return its process."""
        return int(self.ready.read_text())


@pytest.fixture(autouse=True)
def callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FIXTURES))
    monkeypatch.setenv("MCP_BENCH_RETRIES", "0")
    monkeypatch.setenv("MCP_BENCH_ISOLATION", "none")


@pytest.fixture
def hanging(script: Callable[[str], str], tmp_path: Path) -> Hanging:
    flag, ready = tmp_path / "flag", tmp_path / "ready"
    os.mkfifo(ready)
    key, _, value = script(HANGS_ON_NUMBERS.format(flag=str(flag), ready=str(ready))).partition("=")
    return Hanging({key: value}, flag, ready)

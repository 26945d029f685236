"""Commands that train start again with tcmalloc where it is installed, and only they do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from mcp_bench.trainer import allocator
from mcp_bench.trainer.allocator import ADVICE, advice, is_command, library, preloading
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.recipe import load_recipe
from tests.support.requirements import needs

pytestmark = pytest.mark.component

PROGRAM = """
import os
from mcp_bench.trainer.allocator import prefer_tcmalloc
from mcp_bench.trainer.serving import engines
engines.has_accelerator = lambda: False
prefer_tcmalloc()
print("tcmalloc" in open("/proc/self/maps").read(), os.environ.get("LD_PRELOAD"), "MCP_BENCH_PRELOADED" in os.environ)
"""


def run(folder: Path, *arguments: str, **environ: str) -> list[str]:
    """Run a program that prefers tcmalloc; return whether it has it, and what its own programs would get."""
    path = folder / "program.py"
    path.write_text(PROGRAM)
    clean = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        env=clean | environ,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


@needs("tcmalloc", library() is not None, "it is not installed")
def test_a_command_that_trains_has_tcmalloc_and_passes_it_to_no_other(tmp_path: Path) -> None:
    assert run(tmp_path, "train", "sft") == ["True", "None", "False"]


@pytest.mark.parametrize(
    ("arguments", "environ", "preloaded"),
    [(["record"], {}, "None"), ([], {}, "None"), (["train"], {"LD_PRELOAD": ""}, "")],
)
def test_other_programs_and_the_users_own_choice_stay_as_they_are(
    tmp_path: Path, arguments: list[str], environ: dict[str, str], preloaded: str
) -> None:
    assert run(tmp_path, *arguments, **environ) == ["False", *preloaded.split(), "False"]


@pytest.mark.parametrize(
    ("argv", "started", "again"),
    [
        (["bin/mcp-bench", "train", "sft"], ["python", "bin/mcp-bench", "train", "sft"], True),
        (["root.py", "train"], ["python", "-m", "mcp_bench.bridge.cli.root", "train"], True),
        (["bin/mcp-bench", "train", "sft"], ["python", "-m", "pytest", "-q"], False),  # a fork
        (["bin/mcp-bench", "train", "sft"], ["python"], False),
        (["bin/mcp-bench", "loop"], ["python", "bin/mcp-bench", "loop"], False),
        (["bin/mcp-bench"], ["python", "bin/mcp-bench"], False),
        (["-c"], ["python", "-c", "train"], False),
    ],
)
def test_only_the_command_that_python_was_started_with_is_started_again(
    argv: list[str], started: list[str], again: bool
) -> None:
    assert is_command(argv, started) is again


class StartedAgainError(Exception):
    """In place of the process's new start."""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[str]], None]:
    """Return what makes this process a command of mcp-bench on a machine with tcmalloc and no GPU."""

    def start(words: Sequence[str]) -> None:
        monkeypatch.delenv("LD_PRELOAD", raising=False)
        monkeypatch.setattr(sys, "argv", ["mcp-bench", *words])
        monkeypatch.setattr(sys, "orig_argv", ["python", "mcp-bench", *words])
        monkeypatch.setattr(allocator, "find_library", lambda name: f"lib{name}.so.4")
        monkeypatch.setattr("mcp_bench.trainer.serving.engines.has_accelerator", lambda: False)
        monkeypatch.setattr(os, "execve", execve)

    def execve(*_: object) -> NoReturn:
        raise StartedAgainError

    return start


@pytest.mark.parametrize("command", ["dpo", "kto", "rft", "rl", "sft"])
def test_a_command_starts_again_before_it_does_anything(
    installed: Callable[[Sequence[str]], None], command: str, bench_home: Path
) -> None:
    words = [command, "tiny-cpu", *(["--run", "run_0"] if command == "rft" else [])]
    installed(["train", *words])
    assert isinstance(CliRunner().invoke(train, words).exception, StartedAgainError)
    assert not bench_home.exists() or list(bench_home.iterdir()) == []


def test_a_command_that_does_not_train_does_not_start_again(
    installed: Callable[[Sequence[str]], None],
) -> None:
    installed(["train", "recipes"])
    assert CliRunner().invoke(train, ["recipes"]).exit_code == 0


def test_the_environment_names_the_library_and_who_chose_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        allocator, "find_library", lambda name: f"lib{name}.so.4" if name == "tcmalloc" else None
    )
    made = {"HOME": "/h", "LD_PRELOAD": "libtcmalloc.so.4", "MCP_BENCH_PRELOADED": "1"}
    assert preloading({"HOME": "/h"}) == made
    assert preloading({"LD_PRELOAD": "libother.so"}) is None
    monkeypatch.setattr(allocator, "find_library", lambda _: None)
    assert preloading({"HOME": "/h"}) is None


def test_a_large_model_without_it_gets_an_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    large, tiny = (load_recipe(name, ())[1] for name in ("smollm2-135m-cpu", "tiny-cpu"))
    monkeypatch.setattr(allocator, "find_library", lambda _: None)
    assert advice(large) == ADVICE
    assert advice(tiny) is None
    monkeypatch.setattr(allocator, "find_library", lambda name: f"lib{name}.so.4")
    assert advice(large) is None

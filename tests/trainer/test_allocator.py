"""Commands that train start again with tcmalloc where it is installed, and only they do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bench.trainer import allocator
from mcp_bench.trainer.allocator import ADVICE, advice, library, preloading, started_as
from mcp_bench.trainer.recipe import load_recipe
from tests.support.requirements import needs

pytestmark = pytest.mark.component

PROGRAM = """
import os
from mcp_bench.trainer import allocator
allocator.has_accelerator = lambda: False
allocator.prefer_tcmalloc("train")
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
    assert started_as("train", argv, started) is again


def test_the_loader_is_told_which_library_and_that_it_was_not_the_user(
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


def test_who_trains_a_large_model_without_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    large, tiny = (load_recipe(name, ())[1] for name in ("smollm2-135m-cpu", "tiny-cpu"))
    monkeypatch.setattr(allocator, "find_library", lambda _: None)
    assert advice(large) == ADVICE
    assert advice(tiny) is None
    monkeypatch.setattr(allocator, "find_library", lambda name: f"lib{name}.so.4")
    assert advice(large) is None

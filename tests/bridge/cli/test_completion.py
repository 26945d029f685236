"""Completion in real shells: commands, options and values, fast and harmless."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.bench_commands import Bench
from tests.support.requirements import skip

pytestmark = pytest.mark.system

COMMAND = Path(sys.executable).with_name("mcp-bench")
RUN = "run_1m82dcxwjg78avs"
EPISODE = "ep_1m82dcy1rjqadf0"

# what readline does: the words of a line, the one under the cursor, and the function that was registered
BASH = """
source <({command} completion bash)
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
compopt() {{ :; }}
_mcp_bench_completion {command}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
FISH = "source ({command} completion fish | psub); complete -C {line}"
ZSH = """
autoload -Uz compinit && compinit -u -d {folder}/dump
source <(mcp-bench completion zsh)
_describe() {{ shift $(( $# - 1 )); :; }}
compadd() {{ print -l -- "${{completions[@]}}"; }}
words=({words}); CURRENT=${{#words[@]}}
_mcp_bench_completion
"""
CASES = [
    (["rep"], ["report"]),
    (["record", "--age"], ["--agent", "--agent-option", "--agent-limit", "--agent-command"]),
    (["record", "--agent", "ora"], ["oracle"]),
    (["record", "--benchmark", "saas"], ["saasworld", "saasworld-api"]),
    (["record", "--split", "t"], ["train", "test"]),
    (["record", "--isolation", "land"], ["landlock"]),
    (["export", "--format", "sh"], ["sharegpt"]),
    (["import", "--format", "ev"], ["evalscope"]),
    (["train", "plan", "tiny"], ["tiny-cpu"]),
    (["record", "--resume", "run_"], [RUN]),
    (["report", "--run", "run_1m"], [RUN]),
    (["show", "ep_"], [EPISODE]),
    (["show", ""], [RUN]),
]


@pytest.fixture
def bench(bench_home: Path) -> Bench:
    """A home with a run, and with names that would do harm in a shell."""
    folder = bench_home / "runs" / RUN
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "recordings.db")) as database:
        database.execute("CREATE TABLE episodes (id TEXT)")
        names = [(EPISODE,), ("ep_$(touch owned)",), ("ep_`id`",), ("ep_ *",), ("ep_\x1b[2J",), ("ep_a\nrm",)]
        database.executemany("INSERT INTO episodes VALUES (?)", names)
        database.commit()
    for name in ("run_$(touch owned)", "run_a b", "run_*", "run_\x1b[2J", "run_;id"):
        (bench_home / "runs" / name).mkdir()
    return Bench(bench_home)


def offered(bench: Bench, shell: str, words: list[str], folder: Path) -> list[str]:
    """Return what a real shell would offer for the last word."""
    environ = bench.environment() | {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    quoted = ["mcp-bench", *(word or "''" for word in words)]
    match shell:
        case "bash":
            argv = ["bash", "--norc", "-c", BASH.format(command=COMMAND, words=" ".join(quoted))]
        case "zsh":
            argv = ["zsh", "-f", "-c", ZSH.format(words=" ".join(quoted), folder=folder)]
        case _:
            line = "'" + " ".join(["mcp-bench", *words]) + "'"
            argv = ["fish", "--no-config", "-c", FISH.format(command=COMMAND, line=line)]
    done = subprocess.run(argv, env=environ, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    assert not done.stderr, done.stderr
    assert not (folder / "owned").exists()
    return [line.split("\t")[0] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(("words", "names"), CASES, ids=lambda value: " ".join(value))
def test_bash_completes(bench: Bench, words: list[str], names: list[str], tmp_path: Path) -> None:
    assert offered(bench, "bash", words, tmp_path) == names


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize(("words", "names"), [CASES[0], CASES[1], CASES[2]], ids=["command", "option", "value"])
def test_other_shells_complete(bench: Bench, shell: str, words: list[str], names: list[str], tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        skip(shell, "not installed")
    assert set(names) <= set(offered(bench, shell, words, tmp_path))


def test_a_wrong_line_prints_nothing(bench: Bench, tmp_path: Path) -> None:
    """A message would destroy the line that somebody types."""
    assert offered(bench, "bash", ["recrod", "--"], tmp_path) == ["--help"]
    bench.environ["MCP_BENCH_HOME"] = "/dev/null"
    assert offered(bench, "bash", ["show", "ep_"], tmp_path) == []


def test_a_value_imports_neither_plugins_nor_benchmarks(bench: Bench) -> None:
    probe = (
        "import sys\nfrom mcp_bench.bridge.cli.root import main\ntry: main()\nfinally: print(sorted("
        "name for name in ('pydantic', 'mcp', 'sqlite3', 'rich', 'mcp_bench.plugins.contracts') if name in sys.modules))"
    )
    environ = bench.environment() | {
        "_MCP_BENCH_COMPLETE": "bash_complete", "COMP_WORDS": "mcp-bench record --agent ", "COMP_CWORD": "3",
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", probe], env=environ, capture_output=True, text=True, timeout=60)
    assert "plain,oracle" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]", done

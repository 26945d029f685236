"""Completion in real shells: commands, options and values, fast and harmless."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.bridge.cli.help.completion import NAMES
from tests.support.bench_commands import Bench
from tests.support.requirements import skip

pytestmark = pytest.mark.system

COMMAND = Path(sys.executable).with_name("mcp-bench")
RUN = "run_1m82dcxwjg78avs"
EPISODE = "ep_1m82dcy1rjqadf0"

# what readline does: the words of a line, the one under the cursor, and the function that was registered
BASH = """
source <(mcp-bench completion bash)
compopt() { :; }
offer() {
    COMP_WORDS=(mcp-bench "$@"); COMP_CWORD=$#; COMPREPLY=()
    _mcp_bench_completion mcp-bench
    echo "line $*"; printf '%s\\n' "${COMPREPLY[@]}"
}
"""
ZSH = """
autoload -Uz compinit && compinit -u -d dump
source <(mcp-bench completion zsh)
_describe() { print -l -- ${completions_with_descriptions%%:*} }
compadd() { print -l -- $completions }
offer() {
    words=(mcp-bench "$@"); CURRENT=$#words
    echo "line $*"; _mcp_bench_completion
}
"""
FISH = """
mcp-bench completion fish | source
function offer
    echo "line $argv"; complete -C "mcp-bench $argv"
end
"""
SHELLS = {"bash": ["bash", "--norc", "-c"], "zsh": ["zsh", "-f", "-c"], "fish": ["fish", "--no-config", "-c"]}
CASES = [
    (["rep"], ["report"]),
    (["record", "--age"], ["--agent", "--agent-option", "--agent-limit", "--agent-command"]),
    (["record", "--agent", "ora"], ["oracle"]),
    (["record", "--benchmark", "saas"], ["saasworld", "saasworld-api"]),
    (["record", "--split", "t"], ["train", "test"]),
    (["record", "--isolation", "land"], ["landlock"]),
    (["export", "--format", "sh"], ["sharegpt"]),
    (["import", "--format", "ev"], ["evalscope"]),
    (["train", "plan", "tiny"], ["tiny-cpu", "tiny-cpu-grpo", "tiny-cpu-grpo-imitate", "tiny-cpu-rft"]),
    (["record", "--resume", "run_"], [RUN]),
    (["report", "--run", "run_1m"], [RUN]),
    (["install", "c"], ["claude-code", "codex", "cursor"]),
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


def offered(bench: Bench, shell: str, lines: list[list[str]], folder: Path) -> list[list[str]]:
    """Return what a real shell would offer for the last word of each line."""
    script = {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell]
    script += "\n".join("offer " + " ".join(word or "''" for word in words) for words in lines)
    environ = bench.environment() | {"PATH": f"{COMMAND.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*SHELLS[shell], script], env=environ, cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done
    assert not done.stderr, done.stderr
    assert not (folder / "owned").exists()
    parts = re.split(r"^line .*\n", done.stdout, flags=re.MULTILINE)[1:]
    return [[line.split("\t")[0] for line in part.splitlines() if line] for part in parts]


def test_bash_completes_commands_options_and_values(bench: Bench, tmp_path: Path) -> None:
    found = offered(bench, "bash", [words for words, _ in CASES], tmp_path)
    assert dict(zip(map(str, CASES), found, strict=True)) == {str(case): case[1] for case in CASES}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_the_same(bench: Bench, shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        skip(shell, "not installed")
    cases = [*CASES[:3], CASES[-2]]
    found = offered(bench, shell, [words for words, _ in cases], tmp_path)
    assert [set(one) for one in found] == [set(names) for _, names in cases]


def test_an_older_episode_is_offered_by_its_first_letters(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may have more episodes than are offered."""
    monkeypatch.setenv("MCP_BENCH_HOME", str(bench.home))
    with closing(sqlite3.connect(bench.home / "runs" / RUN / "recordings.db")) as database:
        names = [("ep_older",), *((f"ep_p{number:03}",) for number in range(150))]
        database.executemany("INSERT INTO episodes VALUES (?)", names)
        database.commit()
    assert list(NAMES["what"]("ep_ol")) == ["ep_older"]


def test_a_wrong_line_prints_nothing(bench: Bench, tmp_path: Path) -> None:
    """A message would destroy the line that somebody types."""
    bench.environ["MCP_BENCH_HOME"] = "/dev/null"
    lines = [["recrod", "--age"], ["show", "ep_"], ["show", "run"], ["record", "--jobs", "none", "--age"]]
    assert offered(bench, "bash", lines, tmp_path) == [[], [], [], CASES[1][1]]


def test_a_value_imports_neither_plugins_nor_benchmarks(bench: Bench) -> None:
    probe = (
        "import sys\nfrom mcp_bench.bridge.cli.root import main\ntry: main()\nfinally: print(sorted("
        "name for name in ('pydantic', 'mcp', 'sqlite3', 'rich', 'mcp_bench.plugins.contracts') if name in sys.modules))"
    )
    environ = bench.environment() | {
        "_MCP_BENCH_COMPLETE": "bash_complete", "COMP_WORDS": "mcp-bench record --agent ", "COMP_CWORD": "3",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", probe], env=environ, capture_output=True, text=True, timeout=60
    )
    assert "plain,oracle" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]", done

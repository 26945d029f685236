"""An export with several processes equals one with a single process."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.curation import pipeline
from mcp_bench.recorder.curation.parallel import in_order
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import Message
from mcp_bench.servers.errors import BenchError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component

Invoke = Callable[..., Result]
PART = 2


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[RunFolder]:
    """Two runs of five episodes, read in parts of two. Some episodes are duplicates."""
    monkeypatch.setattr(pipeline, "PART", PART)

    def said(number: int) -> Episode:
        words = " ".join(f"word{(number % 3) * 100 + n}" for n in range(40))
        return Episode(partial=number / 5, transcript=[Message(role="assistant", content=f"Grüße: {words}")])

    plan = [(planned(f"user_task_{n}"), said(n)) for n in range(5)]
    return [record(plan, agent=agent, benchmark="homemade")[0] for agent in ("codex", "oracle")]


def written(invoke: Invoke, folder: Path, jobs: int, name: str, *options: str) -> dict[str, bytes]:
    folder.mkdir()
    result = invoke(export, "--min-partial", 0, "--jobs", jobs, *options, "--out", folder / name)
    assert result.exit_code == 0, result.output
    assert "not compared with held-out tasks: rows of homemade" in result.stderr
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "options",
    [
        ["train.jsonl"],
        ["train.jsonl", "--shard-size", "3", "--compress", "gzip"],
        ["train.parquet", "--dedupe", "near", "--on-leak", "drop", "--format", "openai"],
    ],
    ids=["rows", "parts", "rules and Parquet"],
)
def test_two_processes_write_the_same_bytes_as_one(
    runs: list[RunFolder], invoke: Invoke, tmp_path: Path, options: list[str]
) -> None:
    one = written(invoke, tmp_path / "one", 1, *options)
    two = written(invoke, tmp_path / "two", 2, *options)
    assert one == two
    (manifest,) = (json.loads(text) for name, text in one.items() if name.endswith("manifest.json"))
    assert manifest["rows"] == len(manifest["episodes"]) == (3 if "near" in options else 10)


def test_an_error_is_the_same_with_two_processes(
    runs: list[RunFolder], invoke: Invoke, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(runs[1].path / "recordings.db")) as connection, connection:
        connection.execute("DROP TABLE messages")
    errors = []
    for jobs in (1, 2):
        result = invoke(export, "--min-partial", 0, "--jobs", jobs, "--out", tmp_path / "o")
        assert isinstance(result.exception, BenchError), result.exception
        errors.append((type(result.exception), str(result.exception)))
    assert errors[0] == errors[1]
    assert runs[1].id in errors[0][1]
    assert not list(tmp_path.glob("*o")) and not list(tmp_path.glob(".o*"))


def squares(numbers: Sequence[int], *, fails_at: int | None = None, dies_in_other_than: int) -> list[int]:
    if os.getpid() != dies_in_other_than and fails_at in numbers:
        os.kill(os.getpid(), signal.SIGKILL)
    return [number * number for number in numbers]


def test_the_work_of_a_killed_process_is_done_again() -> None:
    parts = [range(at, at + 3) for at in range(0, 30, 3)]
    work = partial(squares, fails_at=13, dies_in_other_than=os.getpid())
    with closing(in_order(parts, work, partial(partial, work), 2)) as made:
        assert list(made) == [number * number for number in range(30)]


HELD = """
import os, signal, sys
from functools import partial
from mcp_bench.recorder.curation.parallel import in_order

def held(numbers):
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    os.write(1, f"{os.getpid()} {int(blocked)}\\n".encode())  # one write: there are two writers
    signal.pause()
    return numbers

if __name__ == "__main__":
    list(in_order([[1], [2]], held, partial(partial, held), 2))
"""


def test_ctrl_c_ends_all_processes_with_one_traceback(tmp_path: Path) -> None:
    """The signal reaches the whole process group, as from a terminal, while both processes work."""
    script = tmp_path / "held.py"
    script.write_text(HELD)
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        started = [child.stdout.readline().split() for _ in range(2)]
        os.killpg(child.pid, signal.SIGINT)
        _, said = child.communicate(timeout=120)
    assert (child.returncode, said.count("KeyboardInterrupt")) == (-signal.SIGINT, 1), said
    for process, is_blocked in started:
        assert is_blocked == "1"
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)

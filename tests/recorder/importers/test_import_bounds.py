"""`mcp-bench import` refuses scores of an unknown scale, and files that unpack to more than fits."""

from __future__ import annotations

import gzip
import json
import os
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.import_ import import_
from mcp_bench.recorder.importers import inspect_log, inspect_sample, json_rows

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]
SAID = [{"role": "user", "content": "Add."}, {"role": "assistant", "content": "2"}]
SAMPLE: dict[str, Any] = {"id": "s", "epoch": 1, "messages": SAID, "scores": {"m": {"value": 0.57}}}
HEADER = {"eval": {"task": "t", "model": "m"}}


def imported(invoke: Invoke, path: Path, form: str) -> tuple[int, list[str]]:
    """Import a file; return the number of episodes and why rows were left out."""
    result = invoke(import_, path, "--format", form, "--json")
    outcome = json.loads(result.stdout)
    assert result.exit_code == (1 if outcome["bad"] else 0)
    return outcome["imported"], [bad["reason"] for bad in outcome["bad"]]


def log(path: Path, *samples: Any, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        for place, sample in enumerate(samples):
            text = sample if isinstance(sample, bytes) else json.dumps(sample)
            archive.writestr(f"samples/{place}.json", text)
    return path


def scored(score: Any) -> dict[str, tuple[str, Any]]:
    """Return a row with a score, by format: the file's name and content."""
    review = {
        "index": 0, "messages": SAID,
        "sample_score": {"score": {"value": {"acc": score}, "main_score_name": "acc"}},
    }  # fmt: skip
    trace = {
        "nodes": [{"parent": None, "message": SAID[0]}, {"parent": 0, "message": SAID[1]}],
        "rewards": {"right": {"score": score, "weight": 1.0}},
    }
    task = {"id": "x", "messages": SAID, "score": score, "passed": False}
    return {
        "evalscope": ("r.jsonl", review),
        "verifiers": (
            "results.jsonl",
            {"example_id": 1, "prompt": "Add.", "completion": "2", "reward": score},
        ),
        "verifiers ": ("traces.jsonl", {"task": {"data": {"id": "x"}}, "traces": [trace]}),
        "automationbench": ("x.json", {"meta": {}, "tasks": [task]}),
        "openai": ("x.jsonl", {"messages": SAID, "partial": score}),
    }


@pytest.mark.parametrize("score", [57, 1.01, -0.5, 1e308])
@pytest.mark.parametrize("form", ["inspect", *scored(0)])
def test_a_score_of_another_scale_is_refused(
    bench_home: Path, invoke: Invoke, tmp_path: Path, form: str, score: float
) -> None:
    """57 became 1.0: solved. It may be of 100, and then the 0.9 beside it is as well."""
    if form == "inspect":
        path = log(tmp_path / "x.eval", {**SAMPLE, "scores": {"m": {"value": score}}}, SAMPLE)
    else:
        name, row = scored(score)[form]
        path = tmp_path / name
        path.write_text(json.dumps(row))
    episodes, reasons = imported(invoke, path, form.strip())
    assert (episodes, len(reasons)) == (1 if form == "inspect" else 0, 1)
    assert f"{score:g}" in reasons[0] or "equal to" in reasons[0]


@pytest.mark.parametrize("score", [0, 0.57, 1, 1.0000001])
def test_a_score_from_0_to_1_is_the_grade(
    bench_home: Path, invoke: Invoke, tmp_path: Path, score: float
) -> None:
    path = log(tmp_path / "x.eval", {**SAMPLE, "scores": {"m": {"value": score}}})
    assert imported(invoke, path, "inspect") == (1, [])


def limited(path: Path, home: Path, form: str) -> tuple[int, dict[str, Any], str]:
    """Import in a process that may have 1 GiB of memory."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    command = [
        sys.executable,
        "-m",
        "mcp_bench.bridge.cli.root",
        "import",
        str(path),
        "--format",
        form,
        "--json",
    ]
    done = subprocess.run(
        command, preexec_fn=limit, env={**os.environ, "MCP_BENCH_HOME": str(home), "ARROW_NUM_THREADS": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def bomb(path: Path, compression: int, megabytes: int) -> Path:
    with zipfile.ZipFile(path, "w", compression, compresslevel=1) as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        archive.writestr("samples/a.json", json.dumps(SAMPLE))
        with archive.open("samples/b.json", "w", force_zip64=True) as file:
            for _ in range(megabytes):
                file.write(bytes(1 << 20))
    return path


def test_a_zip_bomb_is_one_row_that_is_left_out(bench_home: Path, tmp_path: Path) -> None:
    path = bomb(tmp_path / "x.eval", zipfile.ZIP_DEFLATED, 1024)
    code, outcome, stderr = limited(path, bench_home, "inspect")
    assert (code, outcome["imported"]) == (1, 1), stderr
    assert [bad["reason"] for bad in outcome["bad"]] == ["samples/b.json unpacks to more than 128 MiB"]


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_bounded(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: int
) -> None:
    monkeypatch.setattr(inspect_log, "ROW_BYTES", 1 << 20)
    path = bomb(tmp_path / "x.eval", compression, 2)
    assert imported(invoke, path, "inspect") == (1, ["samples/b.json unpacks to more than 1 MiB"])


def test_a_row_that_does_not_fit_into_memory_is_left_out(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`[[],[],...]` takes 20 times its size when it is parsed."""
    plain = json_rows.parse

    def parse(data: bytes) -> Any:
        if b"[],[]" in data:
            raise MemoryError
        return plain(data)

    monkeypatch.setattr(json_rows, "parse", parse)
    path = tmp_path / "x.jsonl"
    path.write_text('{"messages": [[],[]]}\n' + json.dumps({"messages": SAID}) + "\n")
    assert imported(invoke, path, "openai") == (1, ["it does not fit into the memory of this machine"])


def test_many_references_to_one_text_are_refused(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_sample, "ROW_BYTES", 1 << 20)
    said = [{"role": "user", "content": "attachment://a"}] * 20
    path = log(tmp_path / "x.eval", {**SAMPLE, "messages": said, "attachments": {"a": "x" * 100_000}})
    assert imported(invoke, path, "inspect") == (0, ["with its attachments it has more than 1 MiB"])


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.jsonl"])
def test_a_long_line_is_left_out(
    bench_home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(json_rows, "ROW_BYTES", 1 << 20)
    row = json.dumps({"messages": SAID}).encode() + b"\n"
    data = b" " * (1 << 20) + row + row
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert imported(invoke, tmp_path / name, "openai") == (1, ["longer than 1 MiB"])  # and no rest of it


def test_a_time_that_cannot_be_shown_leaves_its_row_out(
    tmp_path: Path, bench_home: Path, invoke: Invoke
) -> None:
    """`show` and `view` would list no run at all."""
    late = {**SAMPLE, "started_at": "9999-12-31T23:59:59-12:00"}
    count, reasons = imported(invoke, log(tmp_path / "a.eval", SAMPLE, late), "inspect")
    assert (count, len(reasons)) == (1, 1) and "started_us: " in reasons[0]

"""Tasks in SWE-bench's format: a file with a JSON document in each line."""

import json
from pathlib import Path

import pytest

from mcp_bench.servers.swe.benchmark import BENCHMARK
from mcp_bench.servers.swe.instance import instances

pytestmark = pytest.mark.unit


def test_an_issue_can_have_other_ends_of_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand in JSON as they are, and end no line of the file."""
    issues = {str(number): f"half{end}line" for number, end in enumerate("\x85\u2028\u2029\n")}
    lines = [
        json.dumps(
            {
                "instance_id": name,
                "repo": "a",
                "base_commit": "b",
                "problem_statement": issue,
                "FAIL_TO_PASS": ["a::b"],
            },
            ensure_ascii=False,
        )
        for name, issue in issues.items()
    ]
    (tmp_path / "tasks.jsonl").write_text("\n".join(["", *lines, ""]), encoding="utf-8")
    monkeypatch.setenv("MCP_BENCH_SWE", str(tmp_path))
    assert {name: one.problem_statement for name, one in instances().items()} == issues


@pytest.mark.parametrize(
    ("line", "reason"),
    [("caf\xe9".encode("latin-1"), "it is not UTF-8"), (b"no JSON", "Invalid JSON: ")],
)
def test_a_line_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, reason: str
) -> None:
    (tmp_path / "tasks.jsonl").write_bytes(b"\n\n" + line + b"\n")
    monkeypatch.setenv("MCP_BENCH_SWE", str(tmp_path))
    said = BENCHMARK.missing()
    assert said is not None and said.startswith(f"{tmp_path / 'tasks.jsonl'}, line 3: {reason}")

"""Tasks in SWE-bench's format: a file with a JSON document in each line."""

import json
from pathlib import Path

import pytest

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

"""Skills are resources, too: for clients that read them, with the tools as they were for all others."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_bench.bridge.harness.folder import SKILL
from tests.support.bench_commands import Bench
from tests.support.harness_folder import FILES, write_harness

pytestmark = pytest.mark.system

Write = Callable[[str], str]
READS = """
server = Server()
opened = server.connect()
listed = server.ask("resources/list", {})
found = [server.ask("resources/read", {"uri": one["uri"]}) for one in listed["result"]["resources"]]
wrong = server.ask("resources/read", {"uri": "skill://press-well/SKILL.m"})
print(json.dumps([listed, found, wrong]))
"""


def answer(bench: Bench, script: Write, source: str, *options: str | Path) -> str:
    bench.run(
        "record", "--agent", "script", "--benchmark", "counter", "--task", "unsolved", "--agent-option",
        script(source), *options,
    )  # fmt: skip
    (row,) = bench.rows("select answer from episodes")
    return str(row["answer"])


def test_a_client_lists_and_reads_skills(bench: Bench, script: Write, tmp_path: Path) -> None:
    """What it read is in the recording, and is no call."""
    folder = write_harness(tmp_path / "calm")
    listed, found, wrong = json.loads(answer(bench, script, READS, "--harness", folder))
    assert listed["result"]["resources"] == [
        {
            "uri": "skill://press-well/SKILL.md",
            "name": "press-well/SKILL.md",
            "description": "How to press a button.",
            "mimeType": "text/markdown",
        },
        {
            "uri": "skill://press-well/references/force.md",
            "name": "press-well/references/force.md",
            "description": "A file of the skill press-well.",
            "mimeType": "text/markdown",
        },
    ]
    texts = [one["result"]["contents"][0]["text"] for one in found]
    assert texts == [FILES[f"skills/press-well/{file}"] for file in (SKILL, "references/force.md")]
    assert wrong["error"]["code"] == -32602
    assert "did you mean skill://press-well/SKILL.md" in wrong["error"]["message"]
    frames = bench.rows("select body from frames where body like '%resources/read%'")
    assert len(frames) == 3
    assert bench.rows("select * from calls") == []


def test_without_skills_no_resources_are_offered(bench: Bench, script: Write, tmp_path: Path) -> None:
    folder = write_harness(tmp_path / "plain", **{"skills__press-well__SKILL": None})
    (folder / "skills" / "press-well" / "references" / "force.md").unlink()
    source = 'server = Server(); server.connect(); print(server.ask("resources/list", {})["error"]["code"])'
    assert answer(bench, script, source, "--harness", folder) == "-32601"

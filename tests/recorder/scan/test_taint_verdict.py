"""The verdict on an episode: stored with keyed hashes, shown, and used to select training data."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.import_ import import_
from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.cli.scan import scan as scan_command
from mcp_bench.recorder.cli.show import show
from mcp_bench.recorder.cli.verify import verify
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.runs.parts import resume_run
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.runs.run_folder import GRADES, RunFolder
from mcp_bench.recorder.scan.scan import scan
from mcp_bench.recorder.taint import Canary, Evidence, Scan, Taint, verified
from tests.support.recorded import Episode, planned, play, run_info

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]
PASSED = {"home": {"passed": True, "detail": "Permission denied"}}
FAILED = {**PASSED, "sealed": {"passed": False, "detail": "42 bytes"}}
LOOKED = Evidence(
    "path", "a name of mcp-bench's (grades.db)", "message 3, call Bash", "find / -name grades.db"
)


@pytest.fixture
def run(bench_home: Path) -> Path:
    """Four solved tasks: verified, tainted, unknown, and clean without isolation; and one never scanned."""
    stories: list[tuple[str, str, Scan | None]] = [
        ("isolated", "bwrap", Scan("clean")),
        ("guilty", "bwrap", Scan("tainted", (LOOKED,))),
        ("silent", "bwrap", Scan("unknown")),
        ("open", "none", Scan("clean")),
        ("old", "bwrap", None),
    ]
    slots = [planned(task) for task, _, _ in stories]
    with RunFolder.create(run_info(*slots)) as folder:
        folder.grades.put_canary(Canary("answers.json", "8be1103eafd4376cd96042a3e1db983d"), now_us())
        for slot, (_, level, scan) in zip(slots, stories, strict=True):
            episode = play(folder, slot, Episode(), isolation=level, probes=PASSED if level != "none" else {})
            if scan is not None:
                folder.grades.put_scan(episode, scan, now_us())
    return folder.path


def episodes(run: Path) -> dict[str, StoredEpisode]:
    with RunReader(run) as reader:
        return {episode.task: episode for episode in reader.episodes()}


def test_verified_needs_isolation_probes_and_clean(run: Path) -> None:
    found = episodes(run)
    assert {task: one.taint for task, one in found.items()} == {
        "isolated": "clean", "guilty": "tainted", "silent": "unknown", "open": "clean", "old": "unknown",
    }  # fmt: skip
    assert [task for task, one in found.items() if verified(one)] == ["isolated"]
    one = found["isolated"]
    for level in ("landlock", "bwrap", "uid"):
        assert verified(replace(one, isolation=level, tools_mode="all"))
    refused: list[dict[str, Any]] = [
        {"isolation": "none"}, {"isolation": "of a later version"}, {"probes": None}, {"probes": {}},
        {"probes": FAILED}, {"probes": {"home": {}}}, {"taint": "unknown"}, {"taint": "tainted"},
    ]  # fmt: skip
    assert not [change for change in refused if verified(replace(one, **change))]


def test_a_report_counts_verdicts(run: Path, invoke: Invoke) -> None:
    rows = json.loads(invoke(report, "--json").stdout)  # one for each isolation
    names = ("episodes", "verified", "clean", "tainted", "unknown")
    counts = {name: sum(row[name] for row in rows) for name in names}
    assert counts == {"episodes": 5, "verified": 1, "clean": 2, "tainted": 1, "unknown": 2}
    table = invoke(report).output
    assert " verified" in table and " 1/" in table and "1 tainted" in table


def test_invalid_episodes_do_not_count(bench_home: Path, invoke: Invoke) -> None:
    with RunFolder.create(run_info(planned("a"), planned("b"))) as folder:
        play(folder, folder.info.plan[0], Episode())
        broken = play(folder, folder.info.plan[1], Episode(partial=None, invalid="endpoint_error"))
        folder.grades.put_scan(broken, Scan("tainted", (LOOKED,)), now_us())
    (row,) = json.loads(invoke(report, "--json").stdout)
    assert (row["tainted"], row["unknown"]) == (0, 1)
    assert "verified none" in invoke(report).output


def test_one_episode_is_shown_with_its_evidence(run: Path, invoke: Invoke) -> None:
    found = episodes(run)
    guilty = invoke(show, found["guilty"].id).output
    assert "taint      tainted, not verified" in guilty
    assert (
        "evidence   a name of mcp-bench's (grades.db) in message 3, call Bash: find / -name grades.db"
        in guilty
    )
    assert "taint      clean, verified" in invoke(show, found["isolated"].id).output
    document = json.loads(invoke(show, found["guilty"].id, "--json").output)
    assert (document["taint"], document["verified"]) == ("tainted", False)
    assert [one["kind"] for one in document["evidence_of_taint"]] == ["path"]


@pytest.mark.parametrize(
    ("options", "tasks", "dropped"),
    [
        ([], ["isolated", "silent", "open", "old"], {"tainted": 1}),
        (["--include-tainted"], ["isolated", "guilty", "silent", "open", "old"], {}),
        (["--clean"], ["isolated", "open"], {"tainted": 1, "not_clean": 2}),
        (["--verified"], ["isolated"], {"tainted": 1, "not_verified": 3}),
        (["--verified", "--clean"], ["isolated"], {"tainted": 1, "not_clean": 2, "not_verified": 1}),
    ],
)
def test_export_selects_by_verdict(
    run: Path, invoke: Invoke, tmp_path: Path, options: list[str], tasks: list[str], dropped: dict[str, int]
) -> None:
    out = tmp_path / "rows.jsonl"
    result = invoke(export, "--out", out, *options)
    assert result.exit_code == 0, result.output
    rows = [json.loads(text) for text in out.read_text().splitlines()]
    assert [row["task"] for row in rows] == tasks
    stored = episodes(run)
    assert {row["task"]: (row["taint"], row["verified"]) for row in rows} == {
        task: (stored[task].taint, task == "isolated") for task in tasks
    }
    manifest = json.loads(out.with_name("rows.jsonl.manifest.json").read_text())
    counted = {rule: count for rule, count in manifest["funnel"]["dropped"].items() if count}
    assert counted == dropped
    selected = {f"--{name.replace('_', '-')}" for name, on in manifest["selection"].items() if on is True}
    assert selected == set(options)


@pytest.mark.parametrize("option", ["--clean", "--verified"])
def test_rules_that_exclude_each_other(run: Path, invoke: Invoke, tmp_path: Path, option: str) -> None:
    result = invoke(export, "--out", tmp_path / "x", option, "--include-tainted")
    assert f"{option} keeps no tainted episode" in str(result.exception)


@pytest.mark.parametrize(
    ("statement", "table", "change"),
    [
        ("UPDATE scans SET verdict = 'clean', evidence = '[]' WHERE verdict = 'tainted'", "scans", "edited"),
        ("DELETE FROM scans WHERE verdict = 'tainted'", "scans", "removed"),
        ("INSERT INTO scans SELECT 'ep_x', 'clean', '[]', '1', 1, recording, tag FROM scans LIMIT 1", "scans", "added"),
        ("UPDATE canaries SET value = 'another'", "canaries", "edited"),
        ("DELETE FROM canaries", "canaries", "removed"),
    ],
)  # fmt: skip
def test_a_changed_verdict_is_found(
    run: Path, invoke: Invoke, statement: str, table: str, change: str
) -> None:
    assert invoke(verify).exit_code == 0
    with closing(sqlite3.connect(run / GRADES)) as db, db:
        assert db.execute(statement).rowcount == 1
    (verdict,) = json.loads(invoke(verify, "--json").output)
    changes = {(one["table"], one["change"]) for one in verdict["findings"]}
    assert verdict["verdict"] == "changed"
    assert (table, change) in changes


def test_a_later_verdict_replaces_an_earlier_one(run: Path, invoke: Invoke) -> None:
    found = episodes(run)
    verdicts: list[Taint] = ["clean", "tainted"]
    with resume_run(run.name) as folder:
        for verdict in verdicts:
            folder.grades.put_scan(found["silent"].id, Scan(verdict), now_us())
    assert episodes(run)["silent"].taint == "tainted"
    assert invoke(verify).exit_code == 0


def scanned(invoke: Invoke, *runs: str, code: int = 0) -> list[dict[str, Any]]:
    result = invoke(scan_command, *runs, "--json")
    assert result.exit_code == code, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_a_run_is_scanned_again(run: Path, invoke: Invoke) -> None:
    ids = {task: episode.id for task, episode in episodes(run).items()}
    (found,) = scanned(invoke)
    # it is not recorded whether the agent had built-in tools, so the transcript must show its actions
    assert found == {
        "run": run.name, "clean": 4, "tainted": 1, "unknown": 0,
        "changed": {ids[task]: ["unknown", "clean"] for task in ("silent", "old")},
    }  # fmt: skip
    assert episodes(run)["guilty"].taint == "tainted", "evidence is kept, although it is not found again"
    with RunReader(run) as reader:
        assert [one["what"] for one in reader.evidence_of_taint(ids["guilty"])] == [LOOKED.what]
    assert invoke(verify).exit_code == 0
    assert scanned(invoke, run.name) == [{**found, "changed": {}}]


def test_an_imported_episode_is_never_clean(run: Path, invoke: Invoke, tmp_path: Path) -> None:
    """Only its source says what its agent did. Evidence counts all the same."""
    said = [{"role": "user", "content": "Pay."}, {"role": "assistant", "content": "I looked at it."}]
    looked = [said[0], {"role": "assistant", "content": f"It is in {run.parent.parent}/runs."}]
    rows = [{"messages": messages, "partial": 1.0} for messages in (said, looked)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (imported,) = json.loads(invoke(import_, path, "--format", "openai", "--json").stdout)["runs"]
    (found,) = scanned(invoke, imported)
    assert (found["clean"], found["tainted"], found["unknown"]) == (0, 1, 1)


def test_a_changed_run_is_not_scanned(run: Path, invoke: Invoke) -> None:
    with closing(sqlite3.connect(run / GRADES)) as db, db:
        db.execute("DELETE FROM grades WHERE episode = (SELECT min(episode) FROM grades)")
    before = (run / GRADES).read_bytes()
    assert scanned(invoke, code=1) == []
    assert "is not scanned, since it is not verified" in invoke(scan_command).stderr
    assert (run / GRADES).read_bytes() == before


def test_a_run_that_is_being_recorded_is_not_scanned(bench_home: Path, invoke: Invoke) -> None:
    with RunFolder.create(run_info()):
        assert scanned(invoke, code=1) == []


@pytest.mark.parametrize("depth", [150, 220])
def test_nested_arguments_hide_no_evidence(bench_home: Path, invoke: Invoke, depth: int) -> None:
    """A fast JSON parser stops at 200 levels, and an agent need not."""
    nested: Any = "deep"
    for _ in range(depth):
        nested = [nested]
    slot = planned("t")
    with RunFolder.create(run_info(slot)) as folder:
        story = Episode(calls=[("transfer", {"amount": nested}, "!refused")], flags=["it tried a token"])
        episode = play(folder, slot, story)
        folder.recording.flush()
        with RunReader(folder.path) as reader:
            found = scan(reader, episode)
            assert reader.messages(episode)
    assert (found.verdict, [one.kind for one in found.evidence]) == ("tainted", ["flag"])
    assert invoke(show, episode).exit_code == 0
    assert "damaged" not in invoke(scan_command, folder.path).stderr

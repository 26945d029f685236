"""`export --push` with the real library, against a local stand-in for the Hub."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.http.hub_stand_in import StandIn, hub_stand_in
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

DUMMY = "hf_dummy_token_of_a_test"


def push(
    hub: StandIn, folder: Path, home: Path, token: str, *options: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **{name: os.environ[name] for name in ("PATH", "MCP_BENCH_HOME", "MCP_BENCH_CACHE")},
        "HOME": str(home),
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": token,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1",
    }
    argv = [sys.executable, "-m", "mcp_bench.bridge.cli.root", "export", "--push", "me/recordings"]
    return subprocess.run(
        [*argv, *(options or ["--pairs"]), "--out", str(folder / "p.jsonl")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def recorded() -> None:
    record([(planned("a", repeat=n), Episode(partial=partial)) for n, partial in enumerate((1.0, 0.0))])


def test_data_manifest_and_card_are_committed_together(recorded: None, tmp_path: Path) -> None:
    with hub_stand_in(DUMMY) as hub:
        done = push(hub, tmp_path, tmp_path, DUMMY)
    assert done.returncode == 0, done.stderr
    names = ("p.jsonl", "p.jsonl.manifest.json", "README.md")
    assert hub.files == {f"me/recordings/{name}": (tmp_path / name).read_bytes() for name in names}
    assert [(made["type"], made["visibility"]) for made in hub.made] == [("dataset", "private")]
    assert hub.commits == ["1 rows of mcp-bench recordings"]
    assert f"pushed to {hub.url}/datasets/me/recordings/commit/" in done.stderr
    assert DUMMY not in done.stdout + done.stderr + (tmp_path / "README.md").read_text()


def test_parts_of_an_earlier_push_are_deleted(tmp_path: Path) -> None:
    """The same commit deletes them. Other data sets of the repository stay."""
    record([(planned(f"t{number}"), Episode()) for number in range(3)])
    others = ["p-extra.jsonl", "old/p-00000-of-00003.jsonl", "p-00000-of-00003.parquet"]
    with hub_stand_in(DUMMY) as hub:
        for name in ("p.jsonl", *others):
            hub.files[f"me/recordings/{name}"] = b"{}"
        for size in ("1", "2"):
            done = push(hub, tmp_path, tmp_path, DUMMY, "--shard-size", size, "--force")
            assert done.returncode == 0, done.stderr
    parts = [f"p-0000{number}-of-00002.jsonl" for number in (0, 1)]
    expected = {*others, *parts, "p.jsonl.manifest.json", "README.md"}
    assert {name.removeprefix("me/recordings/") for name in hub.files} == expected
    assert len(hub.commits) == 2


def test_a_refused_push_is_reported_and_keeps_the_files(recorded: None, tmp_path: Path) -> None:
    with hub_stand_in(DUMMY) as hub:
        done = push(hub, tmp_path, tmp_path, "hf_another")
    assert done.returncode == 1
    assert "could not push to me/recordings: " in done.stderr and "hf auth login" in done.stderr
    assert (tmp_path / "p.jsonl").exists()
    assert hub.files == {}

"""The dataset card: its header for the Hub, and that it is reproducible."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.export.card import size_category
from mcp_bench.servers.errors import WrongUseError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]


@pytest.fixture
def recorded() -> None:
    stories = [
        (planned(f"t{number}"), Episode(partial=partial)) for number, partial in enumerate((1.0, 0.6, 0.1))
    ]
    record(stories, agent="co|dex", model="gpt-x")
    record([(planned("t0"), Episode())], agent="oracle")


def test_the_hub_library_reads_the_header(recorded: None, invoke: Invoke, tmp_path: Path) -> None:
    from huggingface_hub import DatasetCard

    (tmp_path / "d").mkdir()
    done = invoke(
        export, "--card", "--license", "cc-by-4.0", "--shard-size", 2, "--out", tmp_path / "d" / "t.jsonl"
    )
    assert done.exit_code == 0, done.exception
    text = (tmp_path / "d" / "README.md").read_text()
    header = DatasetCard(text).data.to_dict()
    assert (header["license"], header["size_categories"]) == ("cc-by-4.0", ["n<1K"])
    assert header["task_categories"] == ["text-generation"]
    (config,) = header["configs"]
    names = ["t-00000-of-00002.jsonl", "t-00001-of-00002.jsonl"]
    assert config["data_files"] == [{"split": "train", "path": names}]
    assert "| episodes recorded | 4 |" in text
    assert "| with a partial score below 0.5 | -1 |" in text
    assert "| agentdojo | v1.2.2 | train | co\\|dex | gpt-x | 2 | 1 | 0.800 | 0 | 0 | 0 |" in text
    assert "mcp-bench export --shard-size 2 --card --license cc-by-4.0 --out t.jsonl" in text
    manifest = json.loads((tmp_path / "d" / "t.jsonl.manifest.json").read_text())
    assert all(file["sha256"] in text for file in manifest["files"])
    parts = [tmp_path / "d" / f"t-0000{number}-of-00002.jsonl" for number in (0, 1)]
    rows = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    assert [row["id"] for row in rows] == manifest["episodes"]


@pytest.mark.parametrize("options", [[], ["--shard-size", "2"]])
def test_datasets_loads_the_files_of_the_header(
    recorded: None, invoke: Invoke, tmp_path: Path, options: list[str]
) -> None:
    """And no other data set whose name begins so."""
    from datasets import load_dataset

    invoke(export, "--card", *options, "--out", tmp_path / "d" / "t.jsonl")
    invoke(export, "--out", tmp_path / "d" / "t-other.jsonl")
    loaded = load_dataset(str(tmp_path / "d"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(rows) for name, rows in loaded.items()} == {"train": 3}


@pytest.mark.parametrize("options", [[], ["--pairs"], ["--dedupe", "near", "--compress", "gzip"]])
def test_the_same_command_writes_the_same_bytes(
    recorded: None, invoke: Invoke, tmp_path: Path, options: list[str]
) -> None:
    record([(planned("t0", repeat=1), Episode(partial=0.2))], agent="oracle")
    written = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        done = invoke(export, *options, "--card", "--out", tmp_path / name / "t.jsonl")
        assert done.exit_code == 0, done.exception
        written.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert written[0] == written[1]
    assert len(written[0]) == (3 if options == ["--pairs"] else 4)  # data, manifest, card, and the left out


def test_a_license_needs_a_card(recorded: None, invoke: Invoke, tmp_path: Path) -> None:
    done = invoke(export, "--license", "mit", "--out", tmp_path / "t.jsonl")
    assert isinstance(done.exception, WrongUseError)
    assert "without --card or --push" in str(done.exception)
    assert not (tmp_path / "t.jsonl").exists()


def test_a_foreign_readme_is_not_overwritten(recorded: None, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    done = invoke(export, "--card", "--out", tmp_path / "t.jsonl")
    assert isinstance(done.exception, WrongUseError)
    assert (tmp_path / "README.md").read_text() == "mine"
    assert not (tmp_path / "t.jsonl").exists()


@pytest.mark.parametrize(
    ("rows", "word"), [(0, "n<1K"), (1000, "1K<n<10K"), (28_800, "10K<n<100K"), (10**8, "n>10M")]
)
def test_size_categories(rows: int, word: str) -> None:
    assert size_category(rows) == word

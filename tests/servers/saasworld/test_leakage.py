"""Training tasks give away nothing of test tasks."""

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.recorder.leakage.similarity import Signature, signature, similarity
from mcp_bench.servers.home import use_home
from mcp_bench.servers.saasworld.tasks import build, listing
from mcp_bench.servers.secret import secret_path, variable

pytestmark = pytest.mark.component

NEAR_DUPLICATE = 0.5
"""Similarity from which two texts count as near duplicates: most of a longer text is shared."""


def values(record: Any) -> Iterator[str]:
    """Yield the values of a state, without the field names, which all states share."""
    if isinstance(record, dict):
        for value in record.values():
            yield from values(value)
    elif isinstance(record, list):
        for value in record:
            yield from values(value)
    else:
        yield str(record)


def signatures(split: str, count: int) -> dict[str, tuple[Signature, Signature]]:
    """Return the signatures of prompt and state of the first tasks of a split."""
    found = {}
    for task in islice(listing(split, None), count):
        made = build(task)
        found[str(task)] = signature(made.prompt), signature(" ".join(values(made.tables)))
    return found


def leaks(train: int, dev: int, held_out: int) -> list[tuple[str, str]]:
    """Return the pairs of a trained and a held-out task whose prompts or states are near duplicates."""
    trained = signatures("train", train) | signatures("dev", dev)
    return [
        (one, other)
        for split in ("test", "private")
        for other, theirs in signatures(split, held_out).items()
        for one, ours in trained.items()
        if any(similarity(a, b) >= NEAR_DUPLICATE for a, b in zip(ours, theirs, strict=True))
    ]


@pytest.mark.parametrize("chosen", [True, False])
def test_the_secret_is_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: bool) -> None:
    monkeypatch.delenv(variable("saasworld"), raising=False)
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "usual"))
    with use_home(tmp_path / "chosen") if chosen else nullcontext():
        assert secret_path("saasworld") == tmp_path / ("chosen" if chosen else "usual") / "saasworld.secret"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    file = tmp_path / "secret"
    file.write_text("a secret of this test, long enough to be one\n")
    file.chmod(0o600)
    monkeypatch.setenv(variable("saasworld"), str(file))


def test_held_out_tasks_are_unlike_all_trained_ones() -> None:
    assert leaks(train=80, dev=40, held_out=40) == []


@pytest.mark.full
def test_whole_splits_share_nothing() -> None:
    assert leaks(train=1000, dev=100, held_out=300) == []


def test_a_leak_would_be_found() -> None:
    """Tasks of one family and level differ in data only: some of their prompts are near duplicates."""
    trained, dev = signatures("train", 120), signatures("dev", 100)
    alike = [similarity(a[0], b[0]) for a in trained.values() for b in dev.values()]
    assert max(alike) >= NEAR_DUPLICATE


def test_train_and_dev_have_no_task_twice() -> None:
    seen: dict[tuple[str, str], str] = {}
    for split, count in (("train", 250), ("dev", 100)):
        for task in islice(listing(split, None), count):
            made = build(task)
            whole = made.prompt, str(sorted(made.tables.items()))
            assert whole not in seen, (str(task), seen[whole])
            seen[whole] = str(task)

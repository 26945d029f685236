"""Training files with contents that nobody expects: each page shows what there is, and no list breaks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcp_bench.bridge.viewer.app import viewer
from mcp_bench.bridge.viewer.training import exports
from mcp_bench.bridge.viewer.training.folders import TrainingFiles
from tests.support.pages.html_page import parse

pytestmark = pytest.mark.component
TOOL = {"tool": "mcp-bench-kit"}
GOOD = {**TOOL, "format": "sane", "rows": 1, "episodes": ["ep_1"], "funnel": {"rows_in": 3, "rows_out": 1}}
DEEP_OBJECT, DEEP_LIST = '{"a":' * 9_000 + "1" + "}" * 9_000, "[" * 9_000 + "]" * 9_000
LOOP: dict[str, Any] = {"loop.json": {"recipe": "r"}}
RUN: dict[str, Any] = {"recipe.yaml": "x", "data.json": {"files": []}}
IMPROVE: dict[str, Any] = {"improve.json": {}}
PROPOSED = {"action": "harness", "reason": 5}


def data(**facts: Any) -> dict[str, Any]:
    return {"a.jsonl.manifest.json": {**GOOD, **facts}}


ODD: dict[str, dict[str, Any]] = {
    "no funnel": data(funnel={}),
    "a funnel of texts": data(funnel={"rows_in": "3", "rows_out": None, "dropped": {"x": "2", "y": [1]}}),
    "a funnel of lists": data(funnel={"rows_in": 3, "rows_out": 1, "dropped": ["x"]}),
    "texts for lists": data(episodes=3, files="x", rows="1", runs=[1], selection=["a"], rules=[1]),
    "files without names": data(files=[{"rows": 5}, "x", {"name": 5, "rows": "x"}]),
    "reasons of no shape": data(left_out={"run": ["x"], "other": {"rule": 5, "next": [1, "e"]}}),
    "a deep manifest": {"a.jsonl.manifest.json": DEEP_OBJECT},
    "a deep line": {**RUN, "metrics.jsonl": f"{DEEP_LIST}\n" + '{"step": 1, "loss": 1}\n' * 3},
    "a deep row": {**data(files=[{"name": "a.jsonl", "rows": 1}]), "a.jsonl": DEEP_LIST},
    "scores of texts": {**LOOP, "turn-0/measure.json": {"dev": {"run": "x", "partial": "a", "partial_ci": [1]}}},
    "intervals of texts": {
        **LOOP, "turn-0/measure.json": {"dev": {"partial": 0.5, "partial_ci": [1], "strict": 1, "strict_ci": "ab"}},
    },
    "counts for lists": {**LOOP, "loop.json": {"train": 5, "dev": {}, "turns": []}},
    "no number of a turn": {**LOOP, "turn-\u00b2/gate.json": {}},
    "odd flips": {
        **LOOP, "turn-0/measure.json": {"model": "m"}, "turn-1/gate.json": {"promoted": True, "why": 5},
        "turn-1/flips.json": {"dev": {"fail_to_pass": 5, "pass_to_fail": [[1]], "common_tasks": 2,
                                      "partial": {"difference": "x", "difference_ci": [1]}}},
        "turn-1/curate.json": {"data": 5, "rows": "x"}, "turn-1/train/data.json": {"too_long": 5},
    },
    "odd flips of the other split": {
        **LOOP, "turn-0/measure.json": {"model": "m"}, "turn-1/flips.json": {"dev": 5},
    },
    "steps of texts": {**RUN, "settings.json": {"steps": "x", "tasks": 5, "dev": 5},
                       "metrics.jsonl": '{"step": "a", "steps": []}\n{"step": 1e999}\n'},
    "left out rows of texts": {
        **RUN, "data.json": {"files": 5, "too_long": ["a", {"place": 5, "tokens": "x"}], "untrainable": 5},
    },
    "files that are no texts": {**RUN, "data.json": {"files": [{"path": 5}, {"path": [1]}, 5, {"path": "/"}, {"path": ".."}]}},
    "names too long": {
        **RUN, "data.json": {"files": [{"path": "a" * 5_000}], "too_long": [{"place": "b" * 5_000 + ":1"}]},
        "a.jsonl.manifest.json": {**GOOD, "files": [{"name": "a" * 5_000, "rows": 9}], "left_out": "c" * 5_000},
    },
    "numbers too large": data(rows=10**400, funnel={"rows_in": 10**400, "rows_out": 1, "dropped": {"x": 10**400}}),
    "a step of texts": {**RUN, "steps/1/dev.json": {"partial": 0.5, "partial_ci": 5, "run": 5}, "steps/\u00b2/dev.json": {}},
    "an improvement of counts": {**IMPROVE, "improve.json": {"train": 3, "generations": []}},
    "a decision of texts": {
        **IMPROVE, "generation-1/proposal.json": PROPOSED,
        "generation-1/decision.json": {"difference": 0.1, "tasks": 3, "interval": ["a", 1], "verdict": []},
        "generation-1/check.json": {"refused": 5}, "generation-\u00b2/proposal.json": {}, "h\u00b2-w1/test-1.json": {},
    },
    "a spending of texts": {**IMPROVE, "history.json": {"spent": {"usd": "x", "tokens": []}, "stopped": [1]}},
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_odd_contents_break_no_page(odd: str, tmp_path: Path, bench_home: Path) -> None:
    files = {f"odd/{name}": content for name, content in ODD[odd].items()}
    for name, content in {**files, "sane/a.jsonl.manifest.json": GOOD, "sane/loop/loop.json": {}}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    browser = TestClient(viewer([tmp_path]))
    assert "sane" in parse(browser.get("/data").text).text
    assert "sane/loop" in parse(browser.get("/training").text).text
    for found in TrainingFiles([tmp_path]).all():
        page = f"/{'data' if found.kind == 'data' else 'training'}/{found.key}"
        for inner in ("", *(f"/turns/{turn}" for turn in (0, 1)), "/rows/1", "/rows/7"):
            assert browser.get(f"{page}{inner}").status_code in (200, 404), (found.name, inner)


def test_rows_keep_their_numbers_after_one_that_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "MOST_ROW", 100)
    rows = [{"id": "long", "text": "x" * 150}, {"id": "second"}, {"id": "third"}]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    manifest = tmp_path / "a.jsonl.manifest.json"
    manifest.write_text(json.dumps({**GOOD, "files": [{"name": "a.jsonl", "rows": 3}]}))
    found = exports.Export(manifest)
    assert [found.row(number) for number in (2, 3)] == rows[1:]
    with pytest.raises(LookupError, match="cannot be read"):
        found.row(1)

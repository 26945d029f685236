"""The page of `mcp-bench report --html FILE --loop FOLDER`.

The recordings are put into a loop's folder as the loop does it, without training.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mcp_bench.recorder.cli.report import report
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.loop.gate import verdict
from mcp_bench.trainer.loop.settings import LoopSettings
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.trial.scores import flips, scores
from tests.support.pages.html_page import Element, parse, tables
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

TASKS = ("mail.1", "mail.2", "form.1")
BROKEN = Episode(partial=None, invalid="endpoint_error", calls=())
Grades = Sequence[float | None]


def measured(turn: int, **grades: Grades) -> dict[str, Any]:
    """Record a model on each split and return its result as the loop stores it."""
    found: dict[str, Any] = {"model": f"/models/{turn}"}
    for split, given in grades.items():
        stories = [
            (planned(f"{name}.{split}.0", split=split), BROKEN if grade is None else Episode(partial=grade))
            for name, grade in zip(TASKS, given, strict=True)
        ]
        found[split] = scores(record(stories, model=f"turn-{turn}", benchmark="saasworld")[0].id)
    return found


class Story:
    """Writes a loop's folder step by step."""

    def __init__(self, path: Path, turns: int, **more: Any) -> None:
        path.mkdir()
        self.folder = LoopFolder(path)
        facts: dict[str, Any] = {
            "benchmark": "saasworld",
            "train": ["a"],
            "dev": ["b"],
            "test": ["c"],
            "teacher": "oracle",
        }
        self.folder.make(LoopSettings(recipe="tiny-cpu", turns=turns, **facts, **more))

    def base(self, **grades: Grades) -> None:
        self.best = self.folder.step(0, "measure", lambda: measured(0, **grades))

    def train(self, turn: int, losses: Sequence[float]) -> None:
        self.folder.step(turn, "curate", lambda: {"rows": 40 * turn, "runs": [], "data": "", "sha256": ""})
        run = RunFolder(self.folder.turn(turn) / "train")
        run.path.mkdir()
        facts = {"steps": len(losses), "tokens": 1000, "tokens_per_second": 9.5, "memory_bytes": 3 * 2**29}
        lines = [json.dumps({"step": at, "loss": loss, **facts}) for at, loss in enumerate(losses, 1)]
        run.metrics.write_text("\n".join(lines) + "\n")

    def judge(self, turn: int, **grades: Grades) -> dict[str, Any]:
        """Measure, compare and decide as a turn does."""
        step = self.folder.step
        step(turn, "train", lambda: {"model": f"/models/{turn}", "rows": 40 * turn, "too_long": turn})
        after = step(turn, "measure", lambda: measured(turn, **grades))
        changed = step(
            turn, "flips", lambda: {s: flips(self.best[s]["run"], after[s]["run"]) for s in grades}
        )
        promoted, why = verdict(self.best["dev"], after["dev"], changed["dev"])
        step(turn, "gate", lambda: {"promoted": promoted, "why": why, "against": self.best["model"]})
        self.best = after if promoted else self.best
        return {**changed["dev"], "promoted": promoted, "why": why}


def page(loop: Path, *options: str) -> Element:
    path = loop.with_name("page.html")
    result = asked(path, loop, *options)
    assert result.exit_code == 0, result.exception
    return parse(path.read_text(encoding="utf-8"))


def asked(path: Path, loop: Path, *options: str) -> Result:
    return CliRunner().invoke(report, ["--html", str(path), "--loop", str(loop), *options])


def shown(scores: dict[str, Any], kind: str) -> str:
    low, high = scores[f"{kind}_ci"]
    return f"{scores[kind]:.3f} [{low:.3f}, {high:.3f}]"


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two turns, of which the first is promoted and the second breaks more than it fixes; a third trains."""
    folder = tmp_path_factory.mktemp("loop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_BENCH_HOME", str(folder / "home"))
        night(folder / "night")
    return folder / "night"


@pytest.fixture(scope="module")
def found(loop: Path) -> Element:
    """Return the loop's page."""
    return page(loop)


def night(path: Path) -> None:
    story = Story(path, turns=4)
    story.base(dev=(0.0, 0.0, 1.0), test=(0.0, 0.0, 0.0))
    story.train(1, [2.0, 1.0, 0.5])
    assert story.judge(1, dev=(1.0, 0.75, 1.0), test=(0.5, None, 1.0))["promoted"]
    story.folder.step(
        2,
        "attempt",
        lambda: {"run": "r", "model": "m", "scores": measured(2, train=(1.0, 0.0, 0.0))["train"]},
    )
    story.train(2, [2.0, 0.25])
    assert not story.judge(2, dev=(0.0, 0.0, 0.5), test=(0.0, 0.0, 0.0))["promoted"]
    story.train(3, [1.5])


def test_scores_by_turn_are_those_of_the_loop(loop: Path, found: Element) -> None:
    rows = tables(found)["Scores by turn"]
    assert [row["model"] for row in rows] == ["base", "turn 1", "turn 2"]
    for turn, row in enumerate(rows):
        stored = json.loads((loop / f"turn-{turn}" / "measure.json").read_text())
        for split in ("dev", "test"):
            assert row[f"partial on {split}"] == shown(stored[split], "partial")
            assert row[f"strict on {split}"] == shown(stored[split], "strict")
    gates = [json.loads((loop / f"turn-{turn}" / "gate.json").read_text()) for turn in (1, 2)]
    assert [row["promoted"] for row in rows] == [
        "base",
        f"yes: {gates[0]['why']}",
        f"no: {gates[1]['why']}",
    ]
    facts = {
        div.all("dt")[0].text: [dd.text for dd in div.all("dd")] for div in found.all("dl")[0].all("div")
    }
    assert facts["partial on dev"] == ["0.33 → 0.92", "base → turn 1, 3 tasks"]
    assert facts["strict on test"] == ["0.00 → 0.50", "base → turn 1, 2 tasks"]
    assert "2 turns of at most 4 finished; promoted: turn 1." in found.text


def test_invalid_and_unpromoted_models_are_marked(loop: Path, found: Element) -> None:
    charts = {str(figure.attributes["id"]): figure for figure in found.all("figure")}
    assert "1 invalid episode in total; ticks: invalid as 0." in charts["turns-test"].text
    words = {text.text for text in charts["turns-test"].all("text")}
    assert {"base", "1", "2", "not promoted", "invalid as 0"} <= words
    row = tables(found)["Scores on test"][1]
    stored = json.loads((loop / "turn-1" / "measure.json").read_text())["test"]
    assert (row["invalid"], row["partial invalid as 0"]) == ("1", f"{stored['partial_invalid_as_0']:.3f}")
    assert "invalid as 0" not in {text.text for text in charts["turns-dev"].all("text")}


def test_flips_are_against_the_promoted_model_and_named(loop: Path, found: Element) -> None:
    rows = tables(found)["Flips and paired differences on dev"]
    counts = [(row["model"], row["against"], row["fixed"], row["broken"]) for row in rows]
    assert counts == [("turn 1", "base", "1", "0"), ("turn 2", "turn 1", "0", "2")]
    stored = json.loads((loop / "turn-2" / "flips.json").read_text())["dev"]["partial"]
    low, high = stored["difference_ci"]
    assert rows[1]["partial"] == f"{stored['difference']:+.3f} [{low:+.3f}, {high:+.3f}]"
    named = {
        (row["model"], row["split"], row["task"], row["flip"])
        for row in tables(found)["Tasks that flipped, by name"]
    }
    assert named == {
        ("turn 1", "dev", "saasworld/mail.1.dev.0", "fail → pass"),
        ("turn 1", "test", "saasworld/form.1.test.0", "fail → pass"),
        ("turn 2", "dev", "saasworld/mail.1.dev.0", "pass → fail"),
        ("turn 2", "dev", "saasworld/form.1.dev.0", "pass → fail"),
        ("turn 2", "test", "saasworld/form.1.test.0", "pass → fail"),
    }


def test_families_of_the_base_and_the_best(found: Element) -> None:
    rows = tables(found)["Scores on dev by family of tasks"]
    scored = {(row["family of tasks"], row["model"]): (row["partial"], row["strict"]) for row in rows}
    assert scored[("mail.2", "base")] == ("0.000", "0.000")
    assert scored[("mail.2", "turn 1")] == ("0.750", "0.000")
    assert len(scored) == 6


def test_losses_and_training_data(found: Element) -> None:
    shown = tables(found)
    rows = shown["Training data and cost by model"]
    assert [list(row.values()) for row in rows] == [
        ["turn 1", "40", "1", "3", "3,000", "2.000", "0.500", "1.500", ""],
        ["turn 2", "80", "2", "2", "2,000", "2.000", "0.250", "1.500", ""],
        ["turn 3", "120", "-", "1", "1,000", "1.500", "1.500", "1.500", "running, until step 1"],
    ]
    points = [(row["model"], row["step"], row["loss"]) for row in shown["Training loss"]]
    assert points[:3] == [("turn 1", "1", "2.000"), ("turn 1", "2", "1.000"), ("turn 1", "3", "0.500")]
    (attempts,) = shown["The models' own sampled attempts at training tasks"]
    assert (attempts["attempts"], attempts["strict"]) == ("before turn 2", "0.333")


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        ("sft", "Every turn trains from the base"),
        ("kto", "Later turns train from the best model so far, on pairs"),
        ("grpo", "Later turns learn online, from the best model so far"),
    ],
)
def test_the_page_says_what_turns_learn_from(algorithm: str, words: str, tmp_path: Path) -> None:
    Story(tmp_path / "loop", turns=2, algorithm=algorithm).train(1, [1.0])
    assert words in page(tmp_path / "loop").text


def test_long_loss_curves_are_averaged(tmp_path: Path) -> None:
    story = Story(tmp_path / "long", turns=1)
    story.train(1, [float(step % 10) for step in range(1000)])
    found = page(tmp_path / "long")
    rows = tables(found)["Training loss"]
    assert [(row["step"], row["loss"]) for row in rows] == [(f"{10 * n:,}", "4.500") for n in range(1, 101)]
    assert "Each point is the mean of 10 steps" in found.text
    assert "No measurements yet." in found.text


def test_a_loop_that_has_just_begun(tmp_path: Path) -> None:
    story = Story(tmp_path / "new", turns=2)
    assert "No measurements yet." in page(tmp_path / "new").text
    story.base(dev=(0.0, 0.5, 1.0))
    found = page(tmp_path / "new")
    assert "0 turns of at most 2 finished; promoted: none." in found.text
    assert [row["promoted"] for row in tables(found)["Scores by turn"]] == ["base"]
    assert [figure.attributes["id"] for figure in found.all("figure")] == ["turns-dev"]


def test_a_turn_after_one_that_was_not_promoted(tmp_path: Path) -> None:
    story = Story(tmp_path / "slow", turns=2)
    story.base(dev=(0.0, 0.5, 1.0))
    story.judge(1, dev=(0.0, 0.0, 1.0))
    story.judge(2, dev=(1.0, 0.5, 1.0))
    rows = tables(page(tmp_path / "slow"))["Flips and paired differences on dev"]
    assert [row["against"] for row in rows] == ["base", "base"]


def test_selected_recordings_are_added_to_the_page(
    loop: Path, found: Element, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_BENCH_HOME", str(loop.with_name("home")))
    run = json.loads((loop / "turn-1" / "measure.json").read_text())["dev"]["run"]
    titles = [title.text for title in found.all("h2")]
    assert "Scores" not in titles
    titles = [title.text for title in page(loop, "--run", run).all("h2")]
    assert titles[0] == "Base and best model"
    assert titles[-2:] == ["Scores", "By level"]


def test_a_folder_without_a_loop_is_refused(tmp_path: Path, loop: Path) -> None:
    result = asked(tmp_path / "p.html", tmp_path / "none")
    assert isinstance(result.exception, WrongUseError)
    assert "no loop in" in str(result.exception)
    copy = shutil.copytree(loop, tmp_path / "copy")
    for content in ('{"dev": 1}', "{"):
        (copy / "turn-1" / "measure.json").write_text(content)
        result = asked(tmp_path / "p.html", copy)
        assert isinstance(result.exception, WrongUseError), result.exception
        assert "cannot read the loop in" in str(result.exception)
    assert not (tmp_path / "p.html").exists()

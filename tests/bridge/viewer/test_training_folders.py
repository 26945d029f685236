"""What the folders of a loop that learns from reward and of an ablation are shown as."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from mcp_bench.bridge.viewer.app import viewer
from mcp_bench.bridge.viewer.training.folders import TrainingFiles, place_of
from tests.support.pages.html_page import parse
from tests.support.training_files import data_set, rl, scores, sft, write

pytestmark = pytest.mark.component


def test_a_turn_shows_how_it_learns_from_reward(tmp_path: Path, bench_home: Path) -> None:
    """Its training run is in `learn/`: no data set is chosen for it."""
    loop = tmp_path / "loop"
    write(loop / "loop.json", {"recipe": "r", "benchmark": "b", "turns": 2, "algorithm": "grpo"})
    write(loop / "turn-0" / "measure.json", {"model": "/models/base", "dev": scores("run_1", 0.25)})
    write(loop / "turn-1" / "gate.json", {"promoted": False, "why": "no news"})
    rl(loop / "turn-2" / "learn", tmp_path / "model", "run_2")
    place = place_of(str(loop))
    assert place
    browser = TestClient(viewer([loop]))
    shown = [parse(browser.get(page).text) for page in (place[0], f"{place[0]}/turns/2")]
    for page in shown:
        curves = [one.text for one in page.all("figure") if one.attributes.get("class") == "curve"]
        assert [curve.startswith("mean reward 0.5 from 0.25") for curve in curves] == [True]
        assert [one.text for one in page.all("span") if one.attributes.get("class") == "live"] == ["training"]
    (asks,) = (one.attributes["hx-get"] for one in shown[0].all("div") if "hx-trigger" in one.attributes)
    assert browser.get(str(asks)).status_code == 204
    with (loop / "turn-2" / "learn" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 3, "reward": 1.0}\n')
    assert browser.get(str(asks)).status_code == 200


def test_every_row_that_training_left_out_is_counted(bench_home: Path, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    write(loop / "loop.json", {"recipe": "r", "benchmark": "b", "turns": 1})
    data_set(loop / "turn-1" / "train.jsonl", "run_1", ["ep_1"], {})
    write(loop / "turn-1" / "curate.json", {"data": str(loop / "turn-1" / "train.jsonl")})
    for folder in (loop / "turn-1" / "train", tmp_path / "tuned"):
        facts = sft(folder, loop / "turn-1" / "train.jsonl") / "data.json"
        left_out = {"untrainable": ["train.jsonl:2"], "unshown": ["train.jsonl:3", "train.jsonl:4"]}
        write(facts, {**json.loads(facts.read_text()), **left_out})
    places = [place_of(str(path)) for path in (loop, tmp_path / "tuned")]
    assert places[0] and places[1]
    for page in (f"{places[0][0]}/turns/1", places[1][0]):
        text = parse(TestClient(viewer([tmp_path])).get(page).text).text
        assert "1 row left out: longer than the recipe allows" in text
        assert "1 row left out: nothing to train on" in text
        assert "2 rows left out: calls that the chat template leaves out" in text


def test_training_of_an_ablation_is_named_by_its_cohort(bench_home: Path) -> None:
    for cohort in ("high", "random", "low"):
        sft(bench_home / "ablations" / "first" / cohort / "seed-0" / "train", bench_home / "none.jsonl")
    names = {one.name for one in TrainingFiles().all()}
    assert names == {"high/seed-0/train", "random/seed-0/train", "low/seed-0/train"}


def test_a_folder_that_cannot_be_read_hides_no_other(bench_home: Path, tmp_path: Path) -> None:
    """Such as `lost+found`, which only root may see; here the path of a file in it would be too long."""
    tuned = sft(tmp_path / "tuned", tmp_path / "none.jsonl")
    unseen = tmp_path.joinpath(*["d" * 99] * 50)
    unseen = Path(str(unseen)[:4_090])
    unseen.mkdir(parents=True)
    with pytest.raises(OSError, match="too long"):
        (unseen / "loop.json").is_file()
    browser = TestClient(viewer([unseen, tuned]))
    assert browser.get("/training").status_code == browser.get("/data").status_code == 200
    assert [one.path for one in TrainingFiles([unseen, tuned]).all()] == [tuned]
    assert place_of(str(unseen)) == ("/training", unseen)


def test_a_place_is_one_however_it_was_named(
    bench_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training was started in `work`, on `../data` and from `../tuned`, and so is the viewer."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    data_set(tmp_path / "data" / "train.jsonl", "run_1", ["ep_1"], {})
    tuned = sft(tmp_path / "tuned", work / ".." / "data" / "train.jsonl")
    learned = rl(tmp_path / "learned", work / ".." / "tuned" / "model", "run_1")
    found = {one.path: one.key for one in TrainingFiles([Path("..")]).all()}
    assert {*found} == {tuned, learned, tmp_path / "data" / "train.jsonl.manifest.json"}
    browser = TestClient(viewer([Path("..")]))
    data, trained = (
        f"/data/{found[tmp_path / 'data' / 'train.jsonl.manifest.json']}",
        f"/training/{found[tuned]}",
    )
    assert f'href="{trained}"' in browser.get(data).text and f'href="{data}"' in browser.get(trained).text
    assert f'href="{trained}"' in browser.get(f"/training/{found[learned]}").text
    assert place_of("../tuned") == (trained, tuned)


def test_a_link_before_the_folder_above_is_followed(bench_home: Path, tmp_path: Path) -> None:
    tuned = sft(tmp_path / "there" / "tuned", tmp_path / "none.jsonl")
    (tmp_path / "there" / "inside").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "inside")
    place = place_of(str(tmp_path / "link" / ".." / "tuned"))
    assert place and place[1].samefile(tuned)

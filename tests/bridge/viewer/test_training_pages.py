"""Pages of loops, improvements, training runs and data sets: what they show, where they lead, and what they survive."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from mcp_bench.bridge.viewer.app import viewer
from mcp_bench.bridge.viewer.links import opened
from mcp_bench.bridge.viewer.training.exports import Export
from mcp_bench.bridge.viewer.training.folders import TrainingFiles, place_of
from mcp_bench.bridge.viewer.training.improvements import Improvement
from mcp_bench.bridge.viewer.training.text_changes import UNENDED
from mcp_bench.recorder.cli.export import export
from mcp_bench.servers.errors import WrongUseError
from tests.support.bench_commands import Bench
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import client, hostile_home
from tests.support.recorded import Episode, planned, record
from tests.support.training_files import data_set, rl, sft, training_home

pytestmark = pytest.mark.component


@dataclass
class Trained:
    """A home with training, which all tests of this file only read, and a browser on it."""

    home: Path
    manifest: Path
    run: str
    episodes: list[str]
    pages: dict[str, str]
    browser: TestClient

    def get(self, page: str) -> Any:
        return self.browser.get(page.format(**self.pages))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    home = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_BENCH_HOME", str(home))
        before, _ = hostile_home()
        after, episodes = hostile_home()
        folders = training_home(home, before, after, episodes)
        found = {name: place_of(str(path)) for name, path in folders.items()}
        pages = {name: place[0] for name, place in found.items() if place}
        yield Trained(home, folders["data"], after, episodes, pages, client())


@pytest.fixture
def trained(made: Trained, monkeypatch: pytest.MonkeyPatch) -> Trained:
    monkeypatch.setenv("MCP_BENCH_HOME", str(made.home))
    return made


PAGES = ("/training", "/data", "{loop}", "{loop}/turns/0", "{loop}/turns/1", "{loop}/turns/1?split=test", "{sft}",
         "{rl}", "{improve}", "{data}", "{data}?rule=kept", "{data}?rule=tainted", "{data}?q=nothing", "{data}/rows/1")  # fmt: skip
MISSING = (
    "/training/000000000000",
    "{data}/rows/2",
    "{loop}/turns/7",
    "/data/000000000000",
    "{sft}/turns/1",
    "{improve}/turns/1",
)


@pytest.mark.parametrize("page", (*PAGES, *MISSING))
def test_hostile_files_stay_text_on(page: str, trained: Trained) -> None:
    answer = trained.get(page)
    assert answer.status_code == (404 if page in MISSING else 200)
    for element in parse(answer.text).all():
        assert element.tag != "script" or element.attributes["src"].startswith("/static/")
        assert not any(name.startswith("on") or name == "style" for name in element.attributes)
        assert element.tag != "img"
    assert "\u202e" not in answer.text
    assert "\x1b" not in answer.text
    assert "3703701" not in answer.text


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str, trained: Trained) -> None:
    links = {one.attributes.get("href") or "" for one in parse(trained.get(page).text).all("a")}
    for link in links - {"#content"}:
        assert trained.browser.get(link).status_code == 200, link


def test_a_model_leads_to_its_episodes(trained: Trained) -> None:
    turn = trained.get("{loop}/turns/1").text
    data = trained.pages["data"]
    assert f'href="{data}"' in turn
    assert f'href="/runs/{trained.run}/{trained.episodes[0]}"' in trained.browser.get(data).text


def test_learning_from_reward_leads_to_the_loop(trained: Trained) -> None:
    text = trained.get("{rl}").text
    assert f'href="{trained.pages["loop"]}"' in text
    assert "mean reward" in text


def test_a_gate_is_in_words(trained: Trained) -> None:
    text = parse(trained.get("{loop}").text).text
    assert "promoted" in text
    assert "1 task fixed" in text
    assert "0.75" in text


def test_generations_are_one_story(trained: Trained) -> None:
    page = parse(trained.get("{improve}").text)
    table, tested, recordings = page.all("table")
    assert [row.all("td")[1].text.strip() for row in table.all("tr")[1:3]] == ["⊘ refused", "✓ promoted"]
    assert "measuring" not in table.all("tr")[3].text
    assert "training" in table.all("tr")[4].text
    assert [row.all("td")[0].text for row in tested.all("tr")[1:]] == ["the start", "harness of generation 2"]
    assert "harness of generation 2, weights of generation 3" in recordings.text
    chapters = {one.attributes["id"]: one for one in page.all("section") if one.attributes.get("id")}
    assert "a value of a test task" in chapters["g1"].text
    assert "not in this home" in chapters["g1"].text
    assert "carelessness" in chapters["g2"].text
    assert "+0.25 on 7 tasks, +0.12 to +0.38" in chapters["g2"].text
    assert "Begins withharness of generation 2" in chapters["g3"].text
    links = {one.attributes["href"] for one in chapters["g2"].all("a")}
    assert f"/runs/{trained.run}" in links
    assert sum("/compare?" in one for one in links) == 1  # the gate and confirm have the same recordings here
    assert {one.attributes["href"].split("/")[1] for one in chapters["g3"].all("a")} == {"training", "data"}


def test_what_has_not_ended_asks_for_news(trained: Trained, tmp_path: Path) -> None:
    """A page is sent again once a file has changed, and asks no more when all has ended."""
    shutil.copytree(trained.home / "loops", tmp_path / "loops")
    browser = TestClient(viewer([tmp_path]))
    for name, file in (("better", "generation-4/train.json"), ("first", "turn-1/train/metrics.jsonl")):
        folder = tmp_path / "loops" / name
        place = place_of(str(folder))
        assert place is not None
        asks = [one for one in parse(browser.get(place[0]).text).all("div") if "hx-trigger" in one.attributes]
        address = str(asks[0].attributes["hx-get"])
        assert browser.get(address).status_code == 204
        (folder / file).write_text('{"model": "m"}')
        assert browser.get(address).status_code == 200
        (folder / "history.json").write_text('{"stopped": "2 turns are done"}')
        assert "hx-trigger" not in browser.get(place[0]).text
    turn = f"{place[0]}/turns/1"
    assert "hx-trigger" not in browser.get(turn).text  # the gate has decided
    (tmp_path / "loops" / "first" / "turn-1" / "gate.json").unlink()
    text = browser.get(f"{turn}?split=test").text
    assert "/turns/1?split=test&amp;seen=" in text and "measuring" in text


def test_a_harness_edit_is_shown_line_by_line(trained: Trained) -> None:
    page = parse(trained.get("{improve}").text)
    (chapter,) = (one for one in page.all("section") if one.attributes.get("id") == "g2")
    files = [one.all("code")[0].text for one in chapter.all("details")]
    assert files == ["INSTRUCTIONS.md", "memory/a.md"]
    lines = [(one.attributes["class"], one.text) for one in chapter.all("details")[0].all("div")[1:]]
    assert ("removed", "removed:Be quick.") in lines
    assert ("added", "added:Be careful.") in lines
    assert [side for side, _ in lines] == ["place", "removed", "added", "same"]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("Be quick.", "Be quick.\n", ["removed:Be quick.", UNENDED, "added:Be quick."]),
        ("Be quick.\n", "Be quick.\n\n", ["Be quick.", "added:"]),
        ("a\x0cb\n", "a\nb\n", [r"removed:a\x0cb", "added:a", "added:b"]),
        ("a" * 2_000, "a" * 2_000 + "b", ["removed:" + "a" * 2_000, UNENDED, "added:" + "a" * 2_000 + "b", UNENDED]),
    ],
    ids=["last line feed", "empty line", "other separator", "end of a long line"],
)  # fmt: skip
def test_every_edit_can_be_seen(
    before: str, after: str, shown: list[str], trained: Trained, tmp_path: Path
) -> None:
    shutil.copytree(trained.home / "loops" / "better", tmp_path / "better")
    for generation, text in ((0, before), (2, after)):
        file = tmp_path / "better" / f"generation-{generation}" / f"h{generation}" / "INSTRUCTIONS.md"
        file.write_text(text)
    page = place_of(str(tmp_path / "better"))
    assert page is not None
    read = parse(TestClient(viewer([tmp_path])).get(page[0]).text)
    (chapter,) = (one for one in read.all("section") if one.attributes.get("id") == "g2")
    found = [one.text for one in chapter.all("details")[0].all("div")[2:]]  # after the place
    assert found == shown


def test_a_harness_too_long_or_broken_is_no_error(trained: Trained, tmp_path: Path) -> None:
    shutil.copytree(trained.home / "loops" / "better", tmp_path / "better")
    (tmp_path / "better" / "generation-1" / "h1" / "INSTRUCTIONS.md").write_text("a\n" * 3_000)
    (tmp_path / "better" / "generation-2" / "h2" / "INSTRUCTIONS.md").write_bytes(b"\xff\xfe")
    page = place_of(str(tmp_path / "better"))
    assert page is not None
    text = TestClient(viewer([tmp_path])).get(page[0]).text
    assert "More than 2000 lines: not compared." in text
    assert "not UTF-8" in text


def test_samples_stand_before_and_after(trained: Trained) -> None:
    page = parse(trained.get("{loop}/turns/1").text)
    (table,) = [one for one in page.all("table") if "samples" in one.attributes.get("class", "")]
    rows = table.all("tr")[1:]
    assert len(rows) == 2
    assert "fixed" in rows[0].text
    assert "side by side" in rows[0].text


def test_a_loss_that_is_no_number_is_no_point(trained: Trained) -> None:
    lines = parse(trained.get("{sft}").text).all("polyline")
    points = [re.findall(r"[\d.]+,[\d.]+", one.attributes["points"] or "") for one in lines]
    assert [len(found) for found in points] == [3, 3, 2, 2], "two of held-out rows"
    assert "nan" not in trained.get("{sft}").text.replace("banan", "").lower()


def test_what_a_guard_stopped_does_not_go_on(trained: Trained, tmp_path: Path) -> None:
    place = place_of(str(rl(tmp_path / "learned", tmp_path, trained.run)))
    assert place
    for why, other in (("", "A guard stopped it: step 3: no news"), ("step 3: no news", "not ended")):
        (tmp_path / "learned" / "stopped.json").write_text(json.dumps({"step": 3, "why": why}))
        text = TestClient(viewer([tmp_path])).get(place[0]).text
        assert other not in text and ("hx-trigger" in text) == (not why)
        assert ("a guard stopped it" in TestClient(viewer([tmp_path])).get("/training").text) == bool(why)
    assert "A guard stopped it: step 3: no news" in text


def test_each_episode_has_its_reason(trained: Trained) -> None:
    page = parse(trained.get("{data}").text)
    tables = page.all("table")
    rows = tables[-1].all("tr")[1:]
    assert ["words of" in row.text for row in rows] == [False, True, True, True]
    assert "words of tainted" in rows[1].text
    only = parse(trained.get("{data}?rule=below_threshold").text).all("table")[-1].all("tr")[1:]
    assert len(only) == 2


def test_episodes_of_a_data_set_are_filtered_by_words(trained: Trained) -> None:
    def shown(query: str) -> int:
        return len(parse(trained.get("{data}" + query).text).all("table")[-1].all("tr")[1:])

    assert shown("?q=TASK-0") == shown("?q=agent") / 2 == 2
    assert shown(f"?q={trained.episodes[3]}") == 1
    assert shown("?q=task-1&rule=below_threshold") == 2
    page = parse(trained.get("{data}?q=task-1&rule=below_threshold").text)
    fields = {one.attributes["name"]: one.attributes.get("value") for one in page.all("input")[1:]}
    assert fields == {"q": "task-1", "rule": "below_threshold"}
    chips = [one.attributes["href"] for one in page.all("a") if one.attributes.get("class") == "chip"]
    assert all("q=task-1" in one for one in chips)


def test_shards_and_relative_places_lead_to_episodes(trained: Trained, tmp_path: Path) -> None:
    """Training was started in `tmp_path` on the shards of an export."""
    data, shards = tmp_path / "data", [f"train-0000{number}-of-00002.jsonl" for number in (0, 1)]
    data_set(data / "train.jsonl", trained.run, trained.episodes[:2], {})
    manifest = data / "train.jsonl.manifest.json"
    content = json.loads(manifest.read_text())
    content["files"] = [{"name": name, "rows": 1} for name in shards]
    manifest.write_text(json.dumps(content))
    for name, row in zip(shards, (data / "train.jsonl").read_text().splitlines(), strict=True):
        (data / name).write_text(row)
    tuned = sft(tmp_path / "runs" / "tuned", data / "train.jsonl")
    facts = json.loads((tuned / "data.json").read_text())
    facts["files"] = [{"path": f"data/{name}"} for name in shards]
    facts["too_long"] = [{"place": f"data/{shards[1]}:1", "tokens": 9}]
    (tuned / "data.json").write_text(json.dumps(facts))
    browser = TestClient(viewer([tmp_path]))
    pages = [place_of(str(path)) for path in (tuned, data / shards[1])]
    assert pages[0] and pages[1]
    text = browser.get(pages[0][0]).text
    page, of_data = parse(text), pages[1][0]
    links = [one.attributes["href"] for one in page.all("a")]
    assert links.count(of_data) == 1
    assert f"{of_data}/rows/2" in links
    assert f"/runs/{trained.run}" in links
    assert trained.episodes[1] in browser.get(f"{of_data}/rows/2").text
    assert f'href="{pages[0][0]}"' in browser.get(of_data).text


def test_where_left_out_episodes_are_named(trained: Trained, tmp_path: Path) -> None:
    """Beside the manifest, and in the manifest of an earlier version. A lost file is no error."""
    manifest = json.loads(trained.manifest.read_text())
    beside = trained.manifest.with_name(manifest["left_out"])
    for name, left_out in (("old", json.loads(beside.read_text())), ("lost", "lost.json"), ("none", None)):
        path = tmp_path / f"{name}.jsonl.manifest.json"
        path.write_text(json.dumps({**manifest, "left_out": left_out}))
        named = Export(path)
        assert (len(named.members()), named.says_why) == {
            "old": (4, True),
            "lost": (1, False),
            "none": (1, True),
        }[name]


def test_a_log_for_inspect_names_its_episodes(bench_home: Path, tmp_path: Path) -> None:
    record([(planned("a"), Episode()), (planned("b"), Episode(partial=0.5))])
    out = tmp_path / "x.eval"
    done = CliRunner().invoke(export, ["--format", "inspect", "--strict", "--out", str(out)])
    place = place_of(str(out))
    assert done.exit_code == 0 and place
    page = parse(TestClient(viewer([place[1]])).get(place[0]).text)
    rows = [row.text.split() for row in page.all("table")[-1].all("tr")[1:]]
    assert [row[:2] for row in rows] == [["a", "✓"], ["b", "✗"]]
    assert "not strictly solved" in " ".join(rows[1])


def test_an_older_manifest_counts_only(trained: Trained, tmp_path: Path) -> None:
    manifest = json.loads(trained.manifest.read_text())
    del (
        manifest["left_out"],
        manifest["rules"],
    )  # before the name of a file, and before the episodes themselves
    (tmp_path / "old.jsonl.manifest.json").write_text(json.dumps(manifest))
    page = place_of(str(tmp_path / "old.jsonl.manifest.json"))
    assert page is not None
    text = TestClient(viewer([tmp_path])).get(page[0]).text
    assert "of an earlier version" in text and "Which ones is not written down" in text
    assert "below threshold" in text


def test_broken_files_are_shown_as_far_as_they_go(trained: Trained, tmp_path: Path) -> None:
    shutil.copytree(trained.home / "loops", tmp_path / "loops")
    files = [path for path in (tmp_path / "loops").rglob("*.json*") if path.is_file()]
    for path in files:
        path.write_text(path.read_text()[: path.stat().st_size // 2])
    browser = TestClient(viewer([tmp_path]))
    first, better = (place_of(str(tmp_path / "loops" / name)) for name in ("first", "better"))
    assert first and better
    pages = ("/training", "/data", first[0], f"{first[0]}/turns/1", better[0])
    assert [browser.get(one).status_code for one in pages] == [200] * 5


def test_a_run_that_has_just_begun_has_a_page(trained: Trained, tmp_path: Path) -> None:
    for name in ("data.json", "recipe.yaml"):
        shutil.copy(trained.home / "training" / "tuned" / name, tmp_path)
    page = place_of(str(tmp_path))
    assert page is not None
    answer = TestClient(viewer([tmp_path])).get(page[0])
    assert answer.status_code == 200
    assert "No step has ended yet" in answer.text


def test_folders_can_have_names_as_in_a_run(trained: Trained, tmp_path: Path) -> None:
    """Only the home's own recordings, and what is in a loop or a run, are passed by."""
    source = trained.home / "training" / "tuned"
    ours = [tmp_path / "experiments" / "runs" / "lora", tmp_path / "cache" / "tuned"]
    for folder in (*ours, ours[0] / "model" / "copy", trained.home / "runs" / "copy"):
        shutil.copytree(source, folder)
    found = {one.path for one in TrainingFiles([tmp_path, trained.home]).all()}
    shutil.rmtree(trained.home / "runs" / "copy")
    assert {path for path in found if path.is_relative_to(tmp_path)} == set(ours)
    assert source in found and trained.home / "runs" / "copy" not in found


def test_a_recording_is_meant_before_a_folder(trained: Trained, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (trained.run, trained.episodes[0], "run_of_mine"):
        (tmp_path / name).mkdir()
    assert opened(trained.run) == (f"/runs/{trained.run}", None)
    assert opened(trained.episodes[0]) == (f"/runs/{trained.run}/{trained.episodes[0]}", None)
    assert opened(f"./{trained.run}") == ("/training", tmp_path / trained.run)
    assert opened("run_of_mine") == ("/training", tmp_path / "run_of_mine")
    shutil.copytree(trained.home / "training" / "tuned", tmp_path / trained.run, dirs_exist_ok=True)
    assert opened(trained.run)[1] == tmp_path / trained.run


def test_a_folder_that_is_not_there_is_named(bench_home: Path, tmp_path: Path) -> None:
    said = Bench(bench_home).run("view", "--no-browser", "--training", tmp_path / "nowhere", code=2).stderr
    assert "nowhere does not exist" in said.replace("\n", " ")


def test_a_path_has_a_page(tmp_path: Path, trained: Trained) -> None:
    assert place_of("run_1") is None
    assert place_of(str(tmp_path)) == ("/training", tmp_path)
    data = trained.home / "loops" / "first" / "turn-1" / "train.jsonl"
    assert (place_of(str(data)) or ("",))[0] == trained.pages["data"]
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(WrongUseError, match="no manifest"):
        place_of(str(tmp_path / "notes.txt"))


def test_a_gain_in_a_unit_of_its_own_has_its_scale(tmp_path: Path) -> None:
    """Partial credit cannot gain more than 1, but bits a byte can."""
    decision = {"tasks": 10, "difference": 1.155, "interval": [1.139, 1.173], "promoted": True}
    (tmp_path / "generation-1").mkdir()
    for name, found in (("proposal", {"action": "harness"}), ("decision", decision)):
        (tmp_path / "generation-1" / f"{name}.json").write_text(json.dumps(found))
    assert Improvement(tmp_path).widest == 1.173

"""Static pages: what is in them, what is left out, and that they lead to each other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_bench.bridge.cli.view import view
from mcp_bench.bridge.viewer.links import opened
from mcp_bench.bridge.viewer.static_site import write_site
from mcp_bench.recorder.records import EpisodeEnd, now_us
from mcp_bench.recorder.runs.annotations import annotate
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.errors import WrongUseError
from tests.support.bench_commands import Bench
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import EVIL, client, hostile_home
from tests.support.recorded import Episode, begin, planned, play, record, run_info

pytestmark = pytest.mark.component
KEY = "sk-" + "a1B2" * 10


def export(*options: str, out: Path) -> str:
    return "\n".join(
        write_site(out, [one for one in options if one != "--grades"], (), test_grades="--grades" in options)
    )


def all_text(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*.html"))


@pytest.mark.parametrize("renamed", [False, True])
def test_pages_lead_to_each_other(tmp_path: Path, bench_home: Path, renamed: bool) -> None:
    run, _ = hostile_home()
    if renamed:  # its folder
        (bench_home / "runs" / run).rename(bench_home / "runs" / "kept")
    export(out=tmp_path / "site")
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) == 6
    for page in pages:
        read = parse(page.read_text())
        links = [one.attributes.get("href") or "" for one in read.all("a") + read.all("link")]
        links += [one.attributes.get("src") or "" for one in read.all("script")]
        for link in filter(None, links):
            path, _, anchor = link.partition("#")
            target = (page.parent / path) if path else page
            assert target.is_file(), link
            if anchor:
                assert f'id="{anchor}"' in target.read_text()
        assert not read.all("form")[:-1]  # only the dialog's
    assert EVIL not in all_text(tmp_path / "site")


def test_secrets_are_replaced(tmp_path: Path, bench_home: Path) -> None:
    calls = (("login", {"api_key": KEY}, f"welcome {KEY}"),)
    record([(planned(), Episode(calls, detail=f"key {KEY}"))])
    export(out=tmp_path / "site")
    text = all_text(tmp_path / "site")
    assert KEY not in text
    assert "[SECRET_1]" in text


def test_grades_of_test_tasks_are_left_out(tmp_path: Path, bench_home: Path) -> None:
    slots = [planned("one", split="test"), planned("two", split="train")]
    record([(slot, Episode(partial=0.625, detail=f"unmet in {slot.task}")) for slot in slots])
    said = export(out=tmp_path / "without")
    assert "1 episode of test tasks shown without grades" in said
    text = all_text(tmp_path / "without")
    assert "unmet in two" in text
    assert "unmet in one" not in text
    assert "Left out of this export." in text
    export("--grades", out=tmp_path / "with")
    assert "unmet in one" in all_text(tmp_path / "with")


def test_private_and_untrainable_tasks_stay(tmp_path: Path, bench_home: Path) -> None:
    slots = [planned("kept"), planned("hidden", split="vault"), planned("canary", trainable=False)]
    record([(slot, Episode()) for slot in slots], settings={"private_splits": ["vault"]})
    said = export(out=tmp_path / "site")
    text = all_text(tmp_path / "site")
    assert "kept" in text
    assert "Please do hidden" not in text
    assert "canary" not in text
    assert "private tasks left out" in said
    assert "may not be trained on left out" in said


def test_nothing_says_what_the_left_out_ones_cost(tmp_path: Path, bench_home: Path) -> None:
    slots = [planned("kept"), planned("broken"), planned("hidden", split="vault")]
    usage = {"kept": 0.25, "broken": 0.5, "hidden": 3.5}
    with RunFolder.create(run_info(*slots, settings={"private_splits": ["vault"]})) as folder:
        for slot in slots:
            episode = begin(folder, slot)
            end = EpisodeEnd(
                termination="agent_exit",
                invalid=None if slot.task == "kept" else "endpoint_error",
                usage=Usage(cost_usd=usage[slot.task]),
                ended_us=now_us(),
            )
            folder.recording.end_episode(episode, end, [])
    export(out=tmp_path / "site")
    page = parse((tmp_path / "site" / "runs" / f"{folder.path.name}.html").read_text())
    facts = {one.all("dt")[0].text: one.all("dd")[0].text for one in page.all("dl")[0].all("div")}
    assert (facts["Done"], facts["Invalid"], facts["Cost"]) == ("2", "1", "$0.75")
    row = parse((tmp_path / "site" / "index.html").read_text()).all("tr")[1]
    assert "$0.75" in row.text and "$4.25" not in row.text


def test_an_attempt_that_was_cut_off_does_not_run(tmp_path: Path, bench_home: Path) -> None:
    with RunFolder.create(run_info(planned("one"), planned("two"))) as folder:
        play(folder, planned("one"), Episode())
        episode = begin(folder, planned("two"))
        export(out=tmp_path / "going")
    export(out=tmp_path / "over")
    for site, shown, other in (("going", "… running", "⊘ cut off"), ("over", "⊘ cut off", "… running")):
        for page in (f"runs/{folder.path.name}.html", f"episodes/{episode}.html"):
            text = parse((tmp_path / site / page).read_text()).text
            assert shown in text and other not in text, page
    assert "Cut off:" in text
    assert "Cut off:" not in (tmp_path / "going" / "episodes" / f"{episode}.html").read_text()


def test_one_episode_is_enough(tmp_path: Path, bench_home: Path) -> None:
    _, (first, _) = record([(planned("one"), Episode()), (planned("two"), Episode())])
    export(first, out=tmp_path / "site")
    assert [path.stem for path in (tmp_path / "site" / "episodes").iterdir()] == [first]


def test_an_attempt_that_was_repeated_can_be_named(tmp_path: Path, bench_home: Path) -> None:
    slot = planned("one")
    with RunFolder.create(run_info(slot)) as folder:
        first = play(folder, slot, Episode(partial=None, invalid="world_failed"))
        play(folder, slot, Episode(), attempt=2)
    assert "1 episode of 1 run" in export(first, out=tmp_path / "site")
    assert [path.stem for path in (tmp_path / "site" / "episodes").iterdir()] == [first]


def test_a_tag_chooses_no_episode(tmp_path: Path, bench_home: Path) -> None:
    run, (episode,) = record([(planned(), Episode())])
    annotate(run.path, add=["tag"])
    with pytest.raises(WrongUseError, match="--run-tag chooses runs, not episodes"):
        list(write_site(tmp_path / "site", [episode], ["tag"], test_grades=False))
    assert "1 episode" in "".join(write_site(tmp_path / "site", [], ["tag"], test_grades=False))


def test_a_run_that_cannot_be_read_is_named(tmp_path: Path, bench_home: Path) -> None:
    run, _ = record([(planned(), Episode())])
    annotate(run.path, add=["tag"])
    (run.path / "recordings.db").write_bytes(b"")
    for place, (named, tags) in enumerate((([run.id], ()), ((), ["tag"]), ((), ()))):
        first, *_ = write_site(tmp_path / f"site-{place}", named, tags, test_grades=False)
        assert first.startswith(f"Left out: {run.id} is damaged: "), (named, tags)
    assert f"{run.id} is damaged: " in client().get("/").text


def test_an_episode_that_cannot_be_read_hides_no_other(tmp_path: Path, bench_home: Path) -> None:
    run, episodes = record([(planned(name), Episode()) for name in ("one", "two")])
    record([(planned("three"), Episode())])
    with closing(sqlite3.connect(run.path / "recordings.db")) as db, db:
        db.execute("UPDATE messages SET tool_calls = '{' WHERE episode = ?", [episodes[0]])
    said = export(out=tmp_path / "site")
    assert f"Left out {episodes[0]}: " in said and "2 episodes of 2 runs" in said
    text = all_text(tmp_path / "site")
    assert "Its recording is damaged." in text and str(run.path) not in text
    assert f"episodes/{episodes[0]}.html" in text and "Please do three." in text
    with closing(sqlite3.connect(run.path / "recordings.db")) as db, db:
        db.execute("UPDATE episodes SET probes = '{'")
    said = export(out=tmp_path / "again")
    assert f"Left out {run.id}: " in said and "1 episode of 1 run" in said


def test_an_id_leads_to_no_other_folder(tmp_path: Path, bench_home: Path) -> None:
    run, _ = record([(planned(), Episode())])
    with closing(sqlite3.connect(run.path / "recordings.db")) as db, db:
        for table, column in (("episodes", "id"), ("messages", "episode"), ("calls", "episode")):
            db.execute(f"UPDATE {table} SET {column} = '../../mine'")
    (tmp_path / "mine.html").write_text("mine")
    assert f"Left out {run.id}: " in export(out=tmp_path / "site")
    assert (tmp_path / "mine.html").read_text() == "mine"


def test_a_folder_with_files_is_refused(tmp_path: Path, bench_home: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(WrongUseError, match="not empty"):
        export(out=tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["mine.txt"]


def test_a_path_is_no_selection(tmp_path: Path, bench_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, (episode,) = record([(planned(), Episode())])
    monkeypatch.chdir(tmp_path)
    Path("train.jsonl").write_text("{}")
    for name in ("loop", run.path.name, episode):
        Path(name).mkdir()
    for name in ("train.jsonl", "loop", f"./{run.path.name}", str(tmp_path / "loop")):
        with pytest.raises(WrongUseError, match="--export takes runs and episodes"):
            export(name, out=tmp_path / "site")
    assert not Path("site").exists()
    for place, name in enumerate((run.path.name, episode)):  # the recording is meant, not the folder
        assert "1 episode" in export(name, out=tmp_path / f"site-{place}")


@pytest.mark.parametrize("name", ["missing.jsonl", "missing", "./run_1", "run_1.jsonl"])
def test_what_is_not_there_is_called_by_no_wrong_name(name: str, tmp_path: Path, bench_home: Path) -> None:
    record([(planned(), Episode())])
    with pytest.raises(WrongUseError, match=f"no file, run or episode '{name}'"):
        export(name, out=tmp_path / "site")
    with pytest.raises(WrongUseError, match=f"no file, run or episode '{name}'"):
        opened(name)


def test_a_path_that_cannot_be_seen_is_named(tmp_path: Path, bench_home: Path) -> None:
    """Such as one in a folder of somebody else; here a name is too long."""
    long = "a" * 300
    for arguments in (
        [long],
        [long, "--export", str(tmp_path / "site")],
        ["--training", str(tmp_path / long)],
    ):
        refused = CliRunner().invoke(view, ["--no-browser", "--port", "0", *arguments]).exception
        assert isinstance(refused, WrongUseError)
        assert str(refused).startswith("cannot look at ") and "too long" in str(refused)
    assert not (tmp_path / "site").exists()


def test_the_command_writes_it(tmp_path: Path, bench_home: Path) -> None:
    record([(planned(), Episode())])
    said = Bench(bench_home).run("view", "--export", tmp_path / "site").stdout
    assert "1 episode of 1 run" in said
    assert (tmp_path / "site" / "index.html").is_file()
    assert "go with --export" in Bench(bench_home).run("view", "--grades", code=2).stderr


def test_what_is_left_out_cannot_control_the_terminal(tmp_path: Path, bench_home: Path) -> None:
    folder, _ = record([(planned(), Episode())])
    with closing(sqlite3.connect(folder.path / "recordings.db")) as db:
        db.execute('CREATE TABLE "\x1b]0;mine\x07" (x)')  # a run can be from anybody
    done = CliRunner().invoke(view, ["--export", str(tmp_path / "site")])
    assert done.exit_code == 0 and "was changed: " in done.output
    assert "\x1b" not in done.output

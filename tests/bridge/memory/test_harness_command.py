"""`mcp-bench harness`: edits from real recordings, used by a real run, and what their parts are worth."""

import json
import resource
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.bridge.cli.harness import harness
from mcp_bench.bridge.harness.folder import Harness, read_harness
from mcp_bench.bridge.memory.recorded import harness_runs
from mcp_bench.bridge.memory.worth import left_out, worths
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.servers.errors import WrongUseError
from tests.support.bench_commands import Bench
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

PRESS = ("record", "--benchmark", "counter", "--task", "unsolved")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A home with attempts of an oracle that slips, on train."""
    bench = Bench(tmp_path_factory.mktemp("memory") / "home", {"OPENAI_API_KEY": "k"})
    options = ("--split", "train", "--limit", "16", "--agent-option", "slips=0.9")
    bench.run("record", "--agent", "oracle", *options)
    return bench


def test_edits_follow_each_other(recorded: Bench, tmp_path: Path) -> None:
    """Each is a folder that `record` takes, with all that the one before had."""
    before: tuple[str | Path, ...] = ()
    for edit, options in (
        ("tips", ()),
        ("skills", ()),
        ("examples", ("--most", "1")),
        ("recall", ()),
    ):
        out = tmp_path / edit
        done = recorded.run("harness", edit, *before, *options, "--out", out)
        assert f"wrote {out}, the harness {edit}@" in done.stdout
        before = ("--harness", out)
    made = read_harness(tmp_path / "recall")
    assert {path.partition("/")[0] for path in made.files} == {
        "INSTRUCTIONS.md",
        "memory",
        "skills",
        "recall",
    }
    known = {row["id"] for row in recorded.rows("select id from episodes")}
    for path, text in made.files.items():
        if path.startswith("memory/"):
            named = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ep_")]
            assert named and set(named) <= known
    assert "pass `" in made.instructions or "leave out `" in made.instructions
    again = json.loads(recorded.run("harness", "tips", "--out", tmp_path / "b" / "tips", "--json").stdout)
    assert again["harness"] == str(read_harness(tmp_path / "tips"))  # the same recordings, the same version
    refused = recorded.run("harness", "tips", "--out", tmp_path / "tips", code=2)
    assert "exists: an edit is a new folder" in refused.stderr


def test_recordings_that_teach_nothing_make_no_harness(bench: Bench, tmp_path: Path) -> None:
    """By its exit code, a script can go on: the same recordings never give more."""
    bench.run("record", "--agent", "oracle", "--split", "train", "--limit", "1")
    done = bench.run("harness", "tips", "--out", tmp_path / "none", code=3)
    assert "nothing to add: no error was made in several tasks" in done.stderr
    assert not (tmp_path / "none").exists()


def test_a_model_has_no_rule_for_its_tips(bench: Bench, tmp_path: Path) -> None:
    asked = ("--judge-model", "m", "--least", "3", "--out", tmp_path / "none")
    assert "leave out --least" in bench.run("harness", "tips", *asked, code=2).stderr


def test_a_model_writes_tips(recorded: Bench, tmp_path: Path) -> None:
    """What rests on nothing that was shown is dropped, and every answer is kept beside the harness."""
    options = ("--split", "train", "--limit", "2", "--agent-option", "drop=1")
    recorded.run("record", "--agent", "oracle", *options)
    lessons = [
        {"lesson": "Act\n on what you found.", "attempts": [1]},
        {"lesson": "Rests on nothing.", "attempts": [99]},
        "no lesson",
    ]
    script = Script("Attempt 1", (Step(text=f"Here: {json.dumps(lessons)}"),), without_tools=True)
    with ModelEndpoint([script]) as endpoint:
        done = recorded.run(
            "harness", "tips", "--judge-model", "m", "--judge-base-url", endpoint.openai_url,
            "--out", tmp_path / "by-model",
        )  # fmt: skip
        asked = len(endpoint.requests)
    assert done.stderr.count("asking m about ") == asked
    assert f"{2 * asked} parts of the model's answers were of no use" in done.stderr
    made = read_harness(tmp_path / "by-model")
    assert set(made.tips.values()) == {"Act on what you found."}
    kept = (tmp_path / "by-model" / ".asked.jsonl").read_text().splitlines()
    assert len(kept) == asked
    assert json.loads(kept[0])["role"] == "judge"


def test_a_model_that_does_not_answer_leaves_nothing(recorded: Bench, tmp_path: Path) -> None:
    recorded.run("record", "--agent", "noop", "--split", "train", "--limit", "1")
    done = recorded.run(
        "harness", "tips", "--judge-model", "m", "--judge-base-url", "http://127.0.0.1:9",
        "--out", tmp_path / "none", code=1,
    )  # fmt: skip
    assert "it cannot be reached" in done.stderr
    assert not (tmp_path / "none").exists()


def test_tips_stay_if_the_model_stops_answering(recorded: Bench, tmp_path: Path) -> None:
    """Here because its limit of requests is reached."""
    options = ("--split", "train", "--limit", "2", "--agent-option", "drop=1")
    recorded.run("record", "--agent", "oracle", *options)
    script = Script(
        "Attempt 1", (Step(text='[{"lesson": "Look first.", "attempts": [1]}]'),), without_tools=True
    )
    with ModelEndpoint([script]) as endpoint:
        done = recorded.run(
            "harness", "tips", "--judge-model", "m", "--judge-base-url", endpoint.openai_url, "--role-limit",
            "requests=1", "--out", tmp_path / "some",
        )  # fmt: skip
    assert "the model stopped answering after 1 families" in done.stderr
    assert list(read_harness(tmp_path / "some").tips.values()) == ["Look first."]


def test_answers_without_a_tip_stay_if_the_model_stops_answering(recorded: Bench, tmp_path: Path) -> None:
    """They are paid for: the same command goes on with them."""
    options = ("--split", "train", "--limit", "2", "--agent-option", "drop=1")
    recorded.run("record", "--agent", "oracle", *options)
    script = Script("Attempt 1", (Step(text="I see nothing."),), without_tools=True)
    with ModelEndpoint([script]) as endpoint:
        done = recorded.run(
            "harness", "tips", "--judge-model", "m", "--judge-base-url", endpoint.openai_url, "--role-limit",
            "requests=1", "--out", tmp_path / "none", code=1,
        )  # fmt: skip
    assert "Its 1 answers are kept: the same command goes on with them" in done.stderr
    assert not (tmp_path / "none").exists()


def test_what_is_recalled_is_recorded_and_never_the_task_itself(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "calm"
    (folder / "recall").mkdir(parents=True)
    (folder / "recall" / "own.md").write_text("---\ntask: unsolved\n---\nPress the button: the very task.\n")
    (folder / "recall" / "other.md").write_text("---\ntask: other\n---\nPress the button twice.\n")
    script = Script(
        "press the button.",
        (
            Step((ScriptedCall("recall", {"words": "press a button", "limit": 5}),)),
            Step((ScriptedCall("press"),)),
            Step(text="Pressed."),
        ),
    )
    bench.environ["OPENAI_API_KEY"] = "k"
    with ModelEndpoint([script]) as endpoint:
        bench.run(
            *PRESS, "--agent", "chat", "--model", "m", "--base-url", endpoint.openai_url, "--harness", folder
        )
        system = endpoint.requests[0].body["messages"][0]["content"]
    assert "The tool `recall` finds solved tasks that resemble yours." in system
    results = bench.rows("select content from messages where role = 'tool' order by position")
    assert results[0]["content"] == "Press the button twice."
    assert bench.grades()[0]["strict"] == 1
    (again,) = json.loads(bench.run("regrade", "--json").stdout)
    assert (again["status"], again["differences"]) == ("same", [])


def test_a_full_disk_is_named_by_leave_out(tmp_path: Path) -> None:
    """A limit on the size of files cuts the matrix file short, which is longer than the parts."""
    folder = tmp_path / "calm"
    (folder / "memory").mkdir(parents=True)
    for name in ("one", "two"):
        (folder / "memory" / f"{name}.md").write_text("Be calm.\n")
    out = tmp_path / ("without" * 30)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, limits[1]))  # Python ignores SIGXFSZ
    try:
        done = CliRunner().invoke(harness, ["leave-out", str(folder), "--out", str(out)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert isinstance(done.exception, WrongUseError)
    assert str(done.exception).startswith(f"cannot write {out}/matrix.yaml: File too large. Choose --out in")
    assert not (out / "matrix.yaml").exists()


def test_edits_say_where_they_cannot_be_written(recorded: Bench, tmp_path: Path) -> None:
    """Before a model is asked, too."""
    (tmp_path / "file").touch()
    with ModelEndpoint([]) as endpoint:
        judge = ("--judge-model", "m", "--judge-base-url", endpoint.openai_url)
        for edit in (["skills"], ["tips", *judge]):
            done = recorded.run("harness", *edit, "--out", tmp_path / "file" / "new", code=2)
            assert f"cannot write {tmp_path}/file/new: Not a directory. Choose --out in" in done.stderr
        assert endpoint.requests == []


@pytest.mark.parametrize("out", ["link", "dangling", ".", "mounted"])
def test_a_folder_that_no_other_can_replace_is_refused(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty folder is replaced. That these cannot be showed only after a model was paid."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "mounted").mkdir()
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "dangling").symlink_to("nowhere")
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "mounted")
    monkeypatch.chdir(tmp_path / "empty")
    place = out if out == "." else str(tmp_path / out)
    with pytest.raises(WrongUseError, match="and no new folder can take its place"):
        CliRunner().invoke(harness, ["tips", "--out", place], catch_exceptions=False)


def test_folders_without_parts_come_into_a_link(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / "calm" / "memory").mkdir(parents=True, exist_ok=True)
        (tmp_path / "calm" / "memory" / f"{name}.md").write_text("Be calm.\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    words = ["leave-out", str(tmp_path / "calm"), "--out", str(tmp_path / "link")]
    assert CliRunner().invoke(harness, words, catch_exceptions=False).exit_code == 0
    assert {one.name for one in (tmp_path / "empty").iterdir()} == {"without-1", "without-2", "matrix.yaml"}


def test_the_worth_of_a_tip_is_counted_in_flips(bench: Bench, tmp_path: Path) -> None:
    """The model of this test presses only if the tip is there."""
    folder = tmp_path / "calm"
    (folder / "memory").mkdir(parents=True)
    (folder / "memory" / "good.md").write_text("§press-without-asking: press the button.\n")
    (folder / "memory" / "idle.md").write_text("Be calm.\n")
    without = tmp_path / "without"
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "INSTRUCTIONS.md").write_text("Be calm.")
    refused = bench.run("harness", "leave-out", tmp_path / "one", "--out", without, code=2)
    assert "has one part only" in refused.stderr
    words = ("harness", "leave-out", folder, "--out", without, "--benchmark")
    assert "unknown benchmark 'countr' (did you mean counter?)" in bench.run(*words, "countr", code=2).stderr
    text = bench.run(*words, "counter").stdout
    assert "without memory/good.md" in text
    pressing = Script("§press-without-asking", (Step((ScriptedCall("press"),)), Step(text="Pressed.")))
    lazy = Script("button.", (Step(text="Done."),))
    bench.environ["OPENAI_API_KEY"] = "k"
    with ModelEndpoint([pressing, lazy]) as endpoint:
        matrix: Any = json.loads(json.dumps(_matrix(without)))
        matrix["record"] |= {"task": ["unsolved"], "repeat": 1}
        matrix["record"].pop("split")
        matrix["agents"] = [{"agent": "chat", "model": "m", "base-url": endpoint.openai_url}]
        (without / "matrix.yaml").write_text(json.dumps(matrix))  # JSON is YAML
        bench.run("record", "--config", without / "matrix.yaml")
    rows = json.loads(bench.run("harness", "value", "--split", "train", "--json").stdout)
    flips = {row["part"]: {name: len(found) for name, found in row["flips"].items()} for row in rows}
    assert flips == {
        "memory/good.md": {"fail_to_pass": 1, "pass_to_fail": 0},
        "memory/idle.md": {"fail_to_pass": 0, "pass_to_fail": 0},
    }
    table = bench.run("harness", "value", "--split", "train").stdout.splitlines()
    assert table[0].startswith("memory/good.md of calm@")
    assert "(chat m): 1 tasks, helped 1, hurt 0, strict +1.000" in table[0]
    refused = bench.run("harness", "value", code=2)
    assert "no two recorded harnesses differ by one part on dev" in refused.stderr


def test_runs_under_other_conditions_say_nothing_of_a_part() -> None:
    """Here a limit of calls. What comes from the harness itself is no condition."""
    texts = {"INSTRUCTIONS.md": "Be calm.", "agents.yaml": "oracle: {effort: high}", "memory/a.md": "Press."}
    whole = Harness("calm", texts)
    cut = {part: Harness("cut", left_out(whole.files, part)) for part in ("agents.yaml", "memory/a.md")}

    def recorded(one: Harness, *, strict: bool, **settings: Any) -> None:
        options = dict(one.agents.get("oracle", {}))
        about = {"harness": one.stored(), "options": options, **settings}
        record([(planned("t", split="dev"), Episode(partial=1.0 if strict else 0.5))], settings=about)

    def found() -> dict[str, list[str]]:
        named = harness_runs(run_paths(), ("dev",)).items()
        return {who: [one.part for one in worths(runs)] for who, runs in named if worths(runs)}

    recorded(whole, strict=False, max_calls=1)
    for one in cut.values():
        recorded(one, strict=True)
    assert found() == {}
    recorded(whole, strict=True)
    assert found() == {"oracle, no max_calls": ["agents.yaml", "memory/a.md"]}


def _matrix(folder: Path) -> dict[str, Any]:
    import yaml

    found: dict[str, Any] = yaml.safe_load((folder / "matrix.yaml").read_text())
    return found

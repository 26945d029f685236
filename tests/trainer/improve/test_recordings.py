"""Budgets: what finished phases used, and what ends an improvement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.annotations import annotate
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.cli.improve import improve
from mcp_bench.trainer.folders import locked
from mcp_bench.trainer.improve import proposals
from mcp_bench.trainer.improve import recordings as recordings_module
from mcp_bench.trainer.improve.folder import Arm, ImproveFolder, cells
from mcp_bench.trainer.improve.on_test import on_test
from mcp_bench.trainer.improve.recordings import BudgetSpentError, Left, Recordings, spent_by
from mcp_bench.trainer.improve.report import summary
from mcp_bench.trainer.improve.settings import Budget, ImproveSettings
from mcp_bench.trainer.improve.training import learn, train
from mcp_bench.trainer.recipe import load_recipe, recipe_text
from mcp_bench.trainer.trial import commands
from mcp_bench.trainer.trial import recordings as step_recordings
from mcp_bench.trainer.trial.measuring import Endpoint
from tests.support.recorded import Episode, planned, play, record, run_info

pytestmark = pytest.mark.component

SETTINGS = ImproveSettings(benchmark="b", train=["t"], dev=["d"], confirm=["c"], generations=1, patience=1)


def recordings(tmp_path: Path, **budget: Any) -> Recordings:
    """Return those of an improvement that used 5 episodes, 700 tokens, 2 dollars and an hour."""
    for place, spent in (
        ("h0-w0/train-0.json", {"episodes": 4, "tokens": 500, "usd": 1.5, "seconds": 3000}),
        ("generation-1/proposal.json", {"episodes": 1, "tokens": 200, "usd": 0.5, "seconds": 600}),
    ):
        path = tmp_path / place
        path.parent.mkdir()
        path.write_text(json.dumps({"spent": spent}))
    (tmp_path / "generation-1" / "decision.json").write_text(json.dumps({"promoted": False}))
    settings = replace(SETTINGS, budget=Budget(**budget))
    return Recordings(ImproveFolder(tmp_path), settings)


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"episodes": 8}, "5 of 8 episodes are used, and 4 would be next"),
        ({"tokens": 700}, "700 of 700 tokens are used"),
        ({"usd": 1.9}, "2 of 1.9 US dollars are used"),
        ({"hours": 1}, "1 of 1 hours are used"),
    ],
)
def test_a_budget_ends_it(tmp_path: Path, budget: dict[str, float], reason: str) -> None:
    with pytest.raises(BudgetSpentError, match=reason):
        recordings(tmp_path, **budget).check_budget(4)


def test_what_is_left_of_the_money_limits_the_next_recording(tmp_path: Path) -> None:
    assert recordings(tmp_path, episodes=9, tokens=701, usd=5, hours=1.1).check_budget(4) == Left(
        3.0, pytest.approx(360)
    )


def test_without_limits_nothing_ends(tmp_path: Path) -> None:
    assert recordings(tmp_path).check_budget(10**6) == Left(None, None)


def attempt(began: int, ended: int | None, tokens: int = 10) -> StoredEpisode:
    """Return an attempt that lasted from one second to another."""
    folder, (episode,) = record([(planned("t"), Episode())])
    with RunReader(folder.path) as reader:
        found = reader.episode(episode)
    times = {"started_us": began * 1_000_000, "ended_us": None if ended is None else ended * 1_000_000}
    return replace(found, usage={"input_tokens": tokens, "cost_usd": 0.5}, **times)


@pytest.mark.usefixtures("bench_home")
def test_pauses_cost_no_time_and_retried_attempts_count() -> None:
    day = 86_400
    made = [attempt(100, 110), attempt(105, 120), attempt(day, day + 30), attempt(day + 5, None)]
    assert spent_by(made) == {"episodes": 4, "tokens": 40, "usd": 2.0, "seconds": 50.0}


@pytest.mark.usefixtures("bench_home")
def test_what_was_not_finished_was_paid_too(tmp_path: Path) -> None:
    """A recording that a budget ended, or a session that was cut off. What goes on is counted when it ends."""
    used = recordings(tmp_path, episodes=9)
    tag = f"{ImproveFolder(tmp_path).tag_of_all}/h0-w0/gate-0"
    slot = planned("t")
    with RunFolder.create(run_info(slot)) as folder:  # the second attempt replaces the first one
        play(folder, slot, Episode(partial=None, invalid="world_failed"))
        play(folder, slot, Episode(), attempt=2)
    assert used.spent()["episodes"] == 5
    annotate(folder.path, add=[tag])
    assert used.spent()["episodes"] == 7
    assert used.spent(without=[folder.id])["episodes"] == 5
    with pytest.raises(BudgetSpentError):
        used.check_budget(4)
    used.check_budget(2)
    tokens = used.spent()["tokens"]
    less = Recordings(ImproveFolder(tmp_path), replace(SETTINGS, budget=Budget(tokens=int(tokens))))
    with pytest.raises(BudgetSpentError, match="tokens are used"):  # also those of what goes on
        less.check_budget(4, [folder.id])


@pytest.mark.usefixtures("bench_home")
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(("budget", "goes_on"), [(2, False), (3, True)])
def test_a_recording_that_goes_on_needs_only_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool, budget: int, goes_on: bool
) -> None:
    """Of two episodes, one is invalid: it needs one more, whether its recording had come to its end or not."""
    folder = ImproveFolder(tmp_path)
    settings = replace(SETTINGS, train=["t", "u"], budget=Budget(episodes=budget, usd=10))
    folder.store(settings)
    marker = folder.arm(Arm()) / "train-0.begun"
    marker.write_text(json.dumps({"before": []}))
    run, _ = record(
        [(planned("t"), Episode()), (planned("u"), Episode(partial=None, invalid="world_failed"))]
    )
    annotate(run.path, add=[folder.tag(Arm(), "train-0")])
    used = Recordings(folder, settings)
    asked: list[Sequence[str]] = []
    monkeypatch.setattr(recordings_module, "record", lambda _, words, **__: asked.append(words) or run.id)
    if ended:
        spent = {"episodes": 2, "tokens": 24, "usd": 6.0, "seconds": 1.0}
        marker.with_suffix(".json").write_text(json.dumps({"run": run.id, "spent": spent}))
        used.attempt_invalid(Arm(), "train")
    elif goes_on:
        used.of(Arm(), "train")
    else:
        with pytest.raises(BudgetSpentError, match="2 of 2 episodes are used, and 1 would be next"):
            used.of(Arm(), "train")
    assert len(asked) == goes_on
    for words in asked:  # of the whole run, also of what it cost before
        assert step_recordings.given(words, "--max-cost") == ["--max-cost", "10.000000"]


def test_an_improvement_made_again_at_the_same_place_has_spent_nothing(tmp_path: Path) -> None:
    folder = ImproveFolder(tmp_path)
    folder.store(replace(SETTINGS, id="one"))
    before = folder.tag_of_all
    folder.store(replace(SETTINGS, id="two"))
    assert folder.tag_of_all != before


@pytest.mark.usefixtures("bench_home")
@pytest.mark.parametrize("graded", ["", "claim", "taint"])
def test_a_doubtful_recording_goes_on_or_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, graded: str
) -> None:
    """Invalid episodes are attempted again in the same run. Others have grades, which stay in their run."""
    place = recorded(tmp_path, monkeypatch, Episode(partial=None, invalid="world_failed"), graded)
    Recordings(ImproveFolder(tmp_path), SETTINGS).again(Arm(), "gate", 1)
    assert [path.name for path in place.iterdir()] == ([] if graded else ["gate-0.begun"])


def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Episode, doubt: str) -> Path:
    """Store a recording for the gate, of one episode with a claim or a taint, and return its folder."""
    run, _ = record([(planned("t"), story)])
    place = ImproveFolder(tmp_path).arm(Arm())
    (place / "gate-0.json").write_text(json.dumps({"run": run.id}))
    (place / "gate-0.begun").write_text("{}")
    if doubt == "claim":
        monkeypatch.setattr(StoredEpisode, "claim", "endpoint_error")
    if doubt == "taint":
        whole = recordings_module.episodes_of
        monkeypatch.setattr(
            recordings_module,
            "episodes_of",
            lambda run: [replace(one, taint="tainted") for one in whole(run)],
        )
    return place


@pytest.mark.usefixtures("bench_home")
def test_a_doubtful_score_on_test_is_kept_and_named(tmp_path: Path) -> None:
    """Without a budget to attempt invalid episodes again, it stays."""
    run, _ = record([(planned("t"), Episode(partial=None, invalid="world_failed"))])
    folder = ImproveFolder(tmp_path)
    settings = replace(SETTINGS, test=["t"], budget=Budget(episodes=1))
    folder.store(settings)
    stored = folder.arm(Arm()) / "test-0.json"
    stored.write_text(json.dumps({"run": run.id}))
    Recordings(folder, settings).attempt_invalid(Arm(), "test")
    assert json.loads(stored.read_text()) == {"run": run.id}
    history = {"test": {"h0-w0": run.id}, "best": {"harness": 0, "weights": 0}, "stopped": "done"}
    found = on_test(folder, history)
    assert found is not None and found.document()["doubtful"] == {"h0-w0": 1}
    assert "Doubtful: on test, 1 of 1 episodes of harness at the start" in "\n".join(summary(folder, history))


@pytest.mark.usefixtures("bench_home")
def test_invalid_episodes_are_attempted_again_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typed again, it does not; and where the second attempt is stopped, the first one is still there."""
    run, _ = record([(planned("t"), Episode(partial=None, invalid="world_failed"))])
    folder = ImproveFolder(tmp_path)
    stored = folder.arm(Arm()) / "train-0.json"
    stored.write_text(json.dumps({"run": run.id}))
    asked: list[object] = []

    def again(*_: object, **__: object) -> str:
        asked.append(None)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return run.id

    monkeypatch.setattr(recordings_module, "record", again)
    folder.store(SETTINGS)
    used = Recordings(folder, SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        used.attempt_invalid(Arm(), "train")
    assert json.loads(stored.read_text()) == {"run": run.id}
    for _ in range(2):
        used.attempt_invalid(Arm(), "train")
    assert len(asked) == 2
    assert used.of(Arm(), "train")["run"] == run.id


@pytest.mark.usefixtures("bench_home")
@pytest.mark.parametrize(("doubt", "graded"), [("", 1), ("claim", 1), ("taint", 0)])
def test_the_grade_of_a_tainted_episode_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doubt: str, graded: int
) -> None:
    recorded(tmp_path, monkeypatch, Episode(), doubt)
    scores, doubtful, total = Recordings(ImproveFolder(tmp_path), SETTINGS).scores(Arm(), "gate", 1)
    assert (len(scores), doubtful, total) == (graded, 1 if doubt else 0, 1)


@pytest.mark.usefixtures("bench_home")
@pytest.mark.parametrize(("left", "ends"), [(1.1, True), (None, False)])
def test_a_feedback_session_that_the_hours_end_is_no_proposal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: float | None, ends: bool
) -> None:
    run, _ = record([(planned("t"), Episode())])
    (episode,) = recordings_module.episodes_of(run.id)
    cut = replace(episode, termination="timeout", answer="I was about to propose something.")
    asked: list[list[str]] = []
    monkeypatch.setattr(proposals, "episodes_of", lambda run: [cut])
    monkeypatch.setattr(
        commands, "run", lambda words, **_: asked.append(list(words)) or {"run": run.id, "stopped": False}
    )
    recordings(tmp_path)
    options = {"feedback_agent": "script", "budget": Budget(hours=left)}
    options["record_options"] = ["--timeout", "300", "--isolation", "uid", "--require-isolation=uid"]
    settings = replace(SETTINGS, **options)
    given = {"choice": "any", "parent": tmp_path / "h0", "runs": [], "earlier": [], "edits": 0}
    if ends:
        with pytest.raises(BudgetSpentError, match="hours ended"):
            proposals.propose(ImproveFolder(tmp_path), settings, 1, **given)
    else:
        assert proposals.propose(ImproveFolder(tmp_path), settings, 1, **given)["action"] == "none"
    assert step_recordings.given(asked[0], "--isolation") == ["--isolation", "uid"]
    assert "--require-isolation=uid" in asked[0] and "300" not in asked[0]


@pytest.mark.usefixtures("bench_home")
def test_a_dead_engine_says_nothing_about_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its episodes fail one after the other, which stops the recording."""

    def check() -> None:
        raise BenchError("the engine has ended: out of memory")

    @contextmanager
    def served(*_: object) -> Iterator[Endpoint]:
        yield Endpoint(["--agent", "chat", "--model", "w1"], check)

    def stopped(*_: object, **__: object) -> dict[str, object]:
        return {"run": "run_x", "stopped": True, "stopped_by": "20 episodes in a row were invalid"}

    monkeypatch.setattr(recordings_module, "served", served)
    monkeypatch.setattr(recordings_module, "record", partial(step_recordings.record, run_command=stopped))
    folder = ImproveFolder(tmp_path)
    folder.recipe.write_text(yaml.safe_dump({"model": {"base": "/base"}}))
    settings = replace(SETTINGS, recipe="mine.yaml")
    with pytest.raises(BenchError, match="out of memory"):
        Recordings(folder, settings).scores(Arm(0, 1), "gate", 1)
    assert not list((tmp_path / "h0-w1").glob("gate*.json"))


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    folder = ImproveFolder(tmp_path)
    with (
        locked(folder.path),
        pytest.raises(BenchError, match="another process works in"),
        locked(folder.path),
    ):
        pass
    with locked(folder.path):
        pass


def test_settings_change_under_the_lock_only(tmp_path: Path) -> None:
    recordings(tmp_path)
    folder = ImproveFolder(tmp_path)
    folder.store(SETTINGS)
    before = folder.settings.read_text()
    with locked(folder.path):
        refused = CliRunner().invoke(improve, [str(tmp_path), "--generations", "9"])
    assert "another process works in" in str(refused.exception)
    assert folder.settings.read_text() == before


@pytest.mark.usefixtures("bench_home")
@pytest.mark.parametrize("action", ["train", "rl"])
def test_a_crash_is_no_verdict_and_an_empty_result_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """A training that a full disk ended is tried again; one without anything to learn from is not."""
    run, _ = record([(planned("t"), Episode())])
    folder = ImproveFolder(tmp_path)
    recipe = yaml.safe_load((resources.files("mcp_bench.trainer") / "recipes/tiny-cpu-grpo.yaml").read_text())
    folder.recipe.write_text(yaml.safe_dump({**recipe, "model": {"base": str(tmp_path)}}))
    settings = replace(SETTINGS, recipe="mine", rl_steps=1)
    proposed = {"action": action, "min_partial": 0.5, "best": 2}

    def work() -> dict[str, Any]:
        if action == "rl":
            return learn(folder, settings, 1, Arm())
        return train(folder, settings, 1, proposed, [run.id])

    said = tmp_path / "arguments"
    script = f"import sys; open({str(said)!r}, 'w').write(' '.join(sys.argv)); raise SystemExit"
    monkeypatch.setattr(commands, "MODULE", ("-c", f"{script}(1)"))
    with pytest.raises(commands.StepFailedError):
        work()
    assert ("--on-leak drop" in said.read_text()) == (action == "train")
    if action == "rl":  # its attempts are counted by their tag
        _, _, asked = said.read_text().partition("--run-tag ")
        annotate(runs_dir() / run.id, add=[asked.partition(" ")[0]])
        assert Recordings(folder, settings).spent()["tokens"] == 12
    monkeypatch.setattr(commands, "MODULE", ("-c", f"{script}(3)"))
    step = {"episodes": 4, "seconds": 2.5, "rollout_seconds": 1.0, "reward": 0.5}
    metrics = folder.generation(1) / "train" / "metrics.jsonl"
    metrics.parent.mkdir(exist_ok=True)
    metrics.write_text(f'{json.dumps(step)}\n{{"episodes": 4, "sec')  # a kill tore the last line
    (folder.generation(1) / "train" / "settings.json").write_text(
        "{}"
    )  # so this is not left by a stopped start
    found = work()
    assert found["model"] is None
    assert found["why"].startswith(("nothing came of the episodes", "a guard stopped"))
    assert found["spent"]["seconds"] >= 0
    assert not found["spent"].keys() - {"seconds"}


@pytest.mark.usefixtures("bench_home")
@pytest.mark.parametrize(("tasks", "needed"), [(3, 3 * 8), (30, 2 * 6 * 8)])
def test_learning_needs_a_budget_for_the_tasks_that_it_can_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int, needed: int
) -> None:
    """A step attempts no task twice, so with few of them its groups are fewer than the recipe has."""
    folder = ImproveFolder(tmp_path)
    recipe = load_recipe("tiny-cpu-grpo", [f"model={{base: {tmp_path}}}", "rl.groups=6", "rl.attempts=8"])[1]
    folder.recipe.write_text(recipe_text(recipe))
    monkeypatch.setattr(commands, "MODULE", ("-c", "raise SystemExit(1)"))
    train = [f"t{number}" for number in range(tasks)]
    for episodes, error in ((needed - 1, BudgetSpentError), (needed, commands.StepFailedError)):
        budget = Budget(episodes=episodes)
        with pytest.raises(error):
            learn(folder, replace(SETTINGS, recipe="mine", rl_steps=1, train=train, budget=budget), 1, Arm())


def test_cells_are_first_and_last_of_both() -> None:
    assert cells({"best": {"harness": 0, "weights": 0}}) == [Arm()]
    assert cells({"best": {"harness": 2, "weights": 0}}) == [Arm(), Arm(2)]
    assert cells({"best": {"harness": 2, "weights": 3}}) == [Arm(), Arm(2), Arm(0, 3), Arm(2, 3)]

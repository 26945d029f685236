"""What a run makes of recordings: measurements on `dev`, around its checkpoints, and attempts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.trainer.recipe import Generation, load_recipe, recipe_text
from mcp_bench.trainer.rl import run
from mcp_bench.trainer.rl.collect import read_attempt
from mcp_bench.trainer.rl.credit.algorithms import Attempt
from mcp_bench.trainer.rl.credit.tokens import Sampled, make_rows
from mcp_bench.trainer.rl.folder import RLFolder, RunSettings
from mcp_bench.trainer.rl.guards import CollapsedError, InvalidEpisodesError
from tests.support.recorded import Episode, planned, record
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save, template

pytestmark = pytest.mark.component

RECIPE = load_recipe("tiny-cpu-grpo", ["rl.refills=0", "rl.save_every=1"])[1]
BROKEN = Episode(partial=None, invalid="endpoint_error", calls=())


class Recordings:
    """Stand in for `Rollouts`: each attempt earns the same, and each measurement is the next of a list."""

    def __init__(self, measurements: Sequence[Episode | BaseException]) -> None:
        self.measurements = list(measurements)
        self.made: list[str] = []

    def attempts(self, folder: Path, name: str, tasks: Sequence[str], seed: int) -> list[Attempt]:
        self.made.append(f"attempts {folder.name}")
        return [Attempt("ep_1", task, (), 0.5, earned=0.5, calls=1) for task in tasks]

    def measure(self, folder: Path, name: str, tasks: Sequence[str]) -> str:
        self.made.append(f"dev {folder.name}")
        next_one = self.measurements.pop(0)
        if isinstance(next_one, BaseException):
            raise next_one
        return str(record([(planned(split="dev"), next_one)])[0].id)


class Solved(Recordings):
    """Every attempt solves its task with the same tokens."""

    def attempts(self, folder: Path, name: str, tasks: Sequence[str], seed: int) -> list[Attempt]:
        rows = tuple(make_rows([Sampled((1, 2, 3), (4, 5), (-1.0, -1.0), cut=False)]))
        return [Attempt("ep_1", task, rows, 1.0, strict=True, calls=1) for task in tasks]


@pytest.fixture
def folder(tmp_path: Path) -> RLFolder:
    tokenizer = make_tokenizer(template("qwen3"))
    start = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "start")
    made = RLFolder(tmp_path / "learned")
    made.path.mkdir()
    settings = RunSettings(
        start=str(start), algorithm="grpo", benchmark="phonebook", tasks=("honest.1.train.0",), steps=2,
        dev=("honest.1.dev.0",), dev_every=1,
    )  # fmt: skip
    made.make(settings, recipe_text(RECIPE))
    return made


def learned(
    folder: RLFolder, monkeypatch: pytest.MonkeyPatch, measurements: Sequence[Episode | BaseException]
) -> tuple[list[str], list[str]]:
    """Learn until the end or until Ctrl-C; return what was recorded, and the lines that were reported."""
    recordings, lines = Recordings(measurements), list[str]()
    monkeypatch.setattr(run, "Rollouts", lambda *_: recordings)
    try:
        run.learn(folder, RECIPE, lines.append)
    except KeyboardInterrupt:
        lines.append("stopped")
    return recordings.made, lines


def test_a_stop_during_a_measurement_loses_no_step(folder: RLFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = learned(folder, monkeypatch, [Episode(), KeyboardInterrupt()])
    assert made == ["dev 0", "attempts 1", "dev 1"]
    made, lines = learned(folder, monkeypatch, [Episode(partial=0.25), Episode()])
    assert made == ["dev 1", "attempts 2", "dev 2"]
    assert lines[0] == "step 1: dev partial 0.250, strict 0.000"
    assert learned(folder, monkeypatch, []) == ([], []), "nothing is left to do"


def test_a_measurement_without_a_valid_episode_is_made_again(
    folder: RLFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, lines = learned(folder, monkeypatch, [BROKEN, BROKEN, BROKEN])
    assert [line for line in lines if "dev" in line] == [
        f"step {step}: dev partial -, strict -" for step in range(3)
    ]
    assert not list(folder.path.glob("steps/*/dev.json"))
    made, _ = learned(folder, monkeypatch, [Episode()])
    assert made == ["dev 2"]
    stored: dict[str, Any] = json.loads((folder.path / "steps/2/dev.json").read_text())
    assert (stored["partial"], stored["invalid"]) == (1.0, 0)


def test_the_model_has_the_generation_settings_of_the_recipe(
    folder: RLFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = RECIPE.model_copy(update={"generation": Generation(temperature=0.7, top_k=20)})
    monkeypatch.setattr(run, "Rollouts", lambda *_: Recordings([Episode()] * 3))
    run.learn(folder, recipe, str)
    stored: dict[str, Any] = json.loads((folder.model / "generation_config.json").read_text())
    assert (stored["do_sample"], stored["temperature"], stored["top_k"]) == (True, 0.7, 20)
    assert stored["eos_token_id"], "the rest is that of the start"


def test_an_attempt_without_a_reward_keeps_its_grade() -> None:
    made, _ = record([(planned(), Episode(partial=0.75))])
    with RunReader(made.path) as reader:
        [episode] = reader.episodes()
        attempt = read_attempt(reader, replace(episode, taint="tainted"))
    assert (attempt.reward, attempt.invalid, attempt.earned) == (None, False, 0.75)


class Broken(Recordings):
    """Every attempt is invalid."""

    def attempts(self, folder: Path, name: str, tasks: Sequence[str], seed: int) -> list[Attempt]:
        self.made.append("read" if (folder / f"{name}.run.json").is_file() else "recorded")
        (folder / f"{name}.run.json").write_text("{}")
        return [Attempt("ep_1", task, (), None, invalid=True) for task in tasks]


def test_a_resumed_run_attempts_invalid_episodes_again(
    folder: RLFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, the step that a guard stopped has its recordings, for its report."""
    broken = Broken([Episode()])
    monkeypatch.setattr(run, "Rollouts", lambda *_: broken)
    for _ in range(2):
        with pytest.raises(
            InvalidEpisodesError, match=r"step 1: 1 of 1 episodes are invalid.* no checkpoint"
        ):
            run.learn(folder, RECIPE, lambda line: None)
        assert not folder.fruitless
        assert (folder.step(1) / "attempts-0.run.json").is_file()
    assert broken.made == ["dev 0", "recorded", "recorded"]


@dataclass
class Outage:
    """All attempts of the policy are invalid; later, they earn more than its teacher."""

    lasts: bool = True
    endpoint: object = None
    model: str = ""

    def attempts(self, folder: Path, name: str, tasks: Sequence[str], seed: int) -> list[Attempt]:
        reward = 0.2 if name == "teacher" else None if self.lasts else 0.5
        return [Attempt("ep_1", task, (), reward, invalid=reward is None, calls=1) for task in tasks]


def test_a_teacher_is_compared_with_valid_attempts(folder: RLFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = folder.read()
    follows = {"algorithm": "opd", "teacher": settings.start, "dev": ()}
    folder.make(settings.model_copy(update=follows), recipe_text(RECIPE))
    for lasts, error, said in (
        (True, InvalidEpisodesError, "1 of 1 episodes are invalid"),
        (False, CollapsedError, "the teacher is worse than the policy"),
    ):
        monkeypatch.setattr(run, "Rollouts", lambda *_, lasts=lasts: Outage(lasts))
        with pytest.raises(error, match=said):
            run.learn(folder, RECIPE, lambda line: None)
        assert folder.fruitless != lasts


def test_a_flat_group_is_replaced_by_another_task_only(
    folder: RLFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_recipe("tiny-cpu-grpo", ["rl.refills=2"])[1]
    recordings = Recordings([Episode()] * 3)
    monkeypatch.setattr(run, "Rollouts", lambda *_: recordings)
    run.learn(folder, recipe, lambda line: None)
    assert [one for one in recordings.made if "attempts" in one] == ["attempts 1", "attempts 2"]


@pytest.mark.parametrize("imitate", [0.0, 0.3])
def test_tasks_that_are_always_solved_are_learned_from_if_they_are_imitated(
    folder: RLFolder, monkeypatch: pytest.MonkeyPatch, imitate: float
) -> None:
    monkeypatch.setattr(run, "Rollouts", lambda *_: Solved([Episode()] * 3))
    recipe = load_recipe("tiny-cpu-grpo", [f"rl.imitate={imitate}", "rl.refills=0", "rl.guards.mismatch=10"])[
        1
    ]
    run.learn(folder, recipe, lambda line: None)
    lines = folder.lines()
    assert [line["flat"] for line in lines] == [1.0, 1.0]
    assert ["loss" in line for line in lines] == [imitate > 0] * 2

"""Ablations: the verdict, and a shortened run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.bridge.cli.root import root
from mcp_bench.servers.errors import BenchError, UnknownNameError, WrongUseError
from mcp_bench.trainer.ablation.settings import AblationSettings
from mcp_bench.trainer.ablation.table import print_result
from mcp_bench.trainer.ablation.verdict import result, verdict
from mcp_bench.trainer.cli.ablate import ablate
from mcp_bench.trainer.folders import store_settings
from mcp_bench.trainer.trial.commands import FruitlessStepError
from mcp_bench.trainer.trial.scores import scores
from tests.support.bench_commands import Bench
from tests.support.recorded import Episode, planned
from tests.support.recorded import record as recorded

pytestmark = pytest.mark.system

TRAIN = [f"simple-{family}.1.train.{n}" for n in range(4) for family in ("contact-details", "mail-filing")]
VALID = {"episodes": 20, "invalid": 2}
DEV = [f"simple-contact-details.1.dev.{n}" for n in range(3)]


def difference(value: float | None, interval: Sequence[float] | None, better: int, seeds: int) -> Any:
    partial = {"difference": value, "difference_ci": interval}
    return [{"a": "low", "b": "high", "partial": partial, "better_in": better, "seeds": seeds}]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (difference(0.4, [0.2, 0.6], 3, 3), "separated, the high cohort trains the better model"),
        (difference(0.4, [0.2, 0.6], 2, 3), "not separated"),  # one seed differs
        (difference(0.1, [-0.1, 0.3], 3, 3), "not separated"),
        (difference(-0.4, [-0.6, -0.2], 0, 3), "separated in reverse"),
        (difference(-0.4, [-0.6, -0.2], 1, 3), "not separated"),
        (difference(None, None, 0, 0), "inconclusive"),
        (difference(0.4, None, 1, 1), "inconclusive"),
    ],
)
def test_separation_needs_an_interval_and_every_seed(rows: Any, words: str) -> None:
    assert verdict(dict.fromkeys(("high", "low"), VALID), rows).startswith(words)


def test_cohorts_with_many_invalid_episodes_are_not_compared() -> None:
    cohorts = {"high": VALID, "low": {"episodes": 20, "invalid": 3}}
    words = verdict(cohorts, difference(0.4, [0.2, 0.6], 3, 3))
    assert words == "inconclusive: 3 of 20 episodes of the cohort low are invalid"


def record(drop: float, tasks: Sequence[str], *more: str) -> str:
    named = [word for task in tasks for word in ("--task", task)]
    arguments = [
        "--agent",
        "oracle",
        "--agent-option",
        f"drop={drop}",
        *named,
        "--jobs",
        "2",
        "--json",
        *more,
    ]
    done = Bench(Path(os.environ["MCP_BENCH_HOME"])).run("record", *arguments)
    return str(json.loads(done.stdout)["run"])


def test_scores_of_seeds_are_pooled_and_compared_by_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))

    def measured(model: str, partial: float) -> dict[str, Any]:
        folder, _ = recorded([(planned(task), Episode(partial=partial)) for task in "abc"], model=model)
        return scores(folder.id)

    grades = {"high": 1.0, "random": 0.5, "low": 0.0}
    arms: dict[str, Any] = {
        name: {
            "model": name,
            "rows": 4,
            "seeds": [measured(name, partial) for _ in range(2 if name == "low" else 1)],
        }
        for name, partial in grades.items()
    }
    arms["high"]["seeds"] *= 2
    arms["random"]["seeds"] *= 2
    found = result(arms)
    assert (found["cohorts"]["high"]["partial"], found["cohorts"]["low"]["partial"]) == (1.0, 0.0)
    assert found["cohorts"]["low"]["episodes"] == 6 and found["cohorts"]["low"]["tasks"] == 3
    row = next(row for row in found["differences"] if (row["a"], row["b"]) == ("low", "high"))
    assert (row["common_tasks"], row["seeds"], row["better_in"]) == (3, 2, 2)
    assert found["verdict"].startswith("separated, the high cohort")
    print_result(found)
    assert "Verdict: separated" in capsys.readouterr().out


def test_a_seed_with_the_same_credits_of_other_tasks_is_not_better(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))
    credits = {
        "high": (0.0, 1 / 3, 0.75, 2 / 3, 1 / 3, 1 / 3),
        "random": (0.0,) * 6,
        "low": (2 / 3, 1 / 3, 0.0, 1 / 3, 0.75, 1 / 3),
    }
    arms: dict[str, Any] = {}
    for name, partials in credits.items():
        attempts = [
            (planned(task), Episode(partial=one)) for task, one in zip("abcdef", partials, strict=True)
        ]
        arms[name] = {"model": name, "rows": 6, "seeds": [scores(recorded(attempts, model=name)[0].id)]}
    assert arms["high"]["seeds"][0]["partial"] > arms["low"]["seeds"][0]["partial"]  # by rounding alone
    assert "higher in 0 of 1 seeds" in result(arms)["verdict"]


def test_wrong_use_is_reported_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))
    out = tmp_path / "ablation"
    wrong: list[tuple[list[str], type[Exception], str]] = [
        ([], WrongUseError, "use --recipe and --size"),
        (["--recipe", "tiny-cpu"], WrongUseError, "use --recipe and --size"),
        (["--recipe", "tiny-cpu", "--size", "1"], WrongUseError, "no runs to select rows from"),
        (["--recipe", "tiny-cpu", "--size", "1", "--run", "run_x"], UnknownNameError, "unknown run 'run_x'"),
        (["--resume", str(out)], WrongUseError, "ablation.json is missing"),
    ]
    for arguments, kind, reason in wrong:
        more = [] if "--resume" in arguments else ["--out", str(out)]
        done = CliRunner().invoke(ablate, [*arguments, *more])
        assert isinstance(done.exception, kind) and reason in str(done.exception)
        assert not out.exists()


def test_cohorts_that_are_too_large_are_refused_before_there_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep the size, so that another one would need another folder."""
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))
    out = tmp_path / "ablation"
    tries = [
        (planned(task, repeat=number), Episode(partial=float(number))) for task in "ab" for number in range(2)
    ]
    recorded(tries, benchmark="saasworld")
    done = CliRunner().invoke(ablate, ["--recipe", "tiny-cpu", "--size", "3", "--out", str(out)])
    assert isinstance(done.exception, WrongUseError)
    assert "there are 2 (in 2 of 2 tasks). Choose a smaller --size" in str(done.exception)
    assert not out.exists()


@pytest.mark.parametrize("more", [["--recipe", "tiny-cpu"], ["--size", "7"], ["--run", "run_x"]])
def test_a_resumed_ablation_keeps_its_settings(tmp_path: Path, more: list[str]) -> None:
    refused = CliRunner().invoke(ablate, ["--resume", str(tmp_path), *more])
    assert refused.exit_code == 2
    assert f"--resume keeps the ablation's own settings: leave out {more[0]}" in refused.output


@pytest.mark.parametrize(
    ("error", "advised"), [(FruitlessStepError("it diverged"), False), (BenchError("killed"), True)]
)
def test_only_an_ablation_that_can_go_on_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BenchError, advised: bool
) -> None:
    settings = AblationSettings(recipe="tiny-cpu", benchmark="saasworld", dev=DEV, runs=["run_x"], size=1)
    store_settings(tmp_path / "ablation.json", settings)

    def ends(*_: object) -> None:
        raise error

    monkeypatch.setattr("mcp_bench.trainer.ablation.start.run", ends)
    ended = CliRunner().invoke(ablate, ["--resume", str(tmp_path)])
    assert ended.exception is error
    assert (f"Resume with: mcp-bench ablate --resume {tmp_path}" in ended.output) == advised


@pytest.mark.full
def test_cohorts_with_too_long_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))
    record(0.5, TRAIN, "--repeat", "3")
    small = ["--base-steps", "3", "--set", "training.epochs=1", "--set", "data.max_length=400"]
    arguments = ["--recipe", "tiny-cpu", "--size", "4", "--seeds", "1", "--dev", "1", *small]
    result = CliRunner().invoke(ablate, [*arguments, "--out", str(tmp_path / "ablation")])
    assert isinstance(result.exception, WrongUseError)
    assert "of the cohort high are longer than data.max_length" in str(result.exception)


@pytest.mark.full
def test_an_ablation_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortened, with real training, serving and measuring. Resuming repeats nothing."""
    monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "home"))
    record(0.5, TRAIN, "--repeat", "3")
    dev = tmp_path / "dev.txt"
    dev.write_text("\n".join(DEV[:2]))
    out = tmp_path / "ablation"
    small = ["--base-steps", "3", "--set", "training.epochs=1", "--max-tokens", "16"]
    asked = ["--recipe", "tiny-cpu", "--size", "4", "--seeds", "1", "--dev", str(dev), *small]
    done = CliRunner().invoke(root, ["ablate", *asked, "--out", str(out), "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {name: cohort["rows"] for name, cohort in found["cohorts"].items()} == dict.fromkeys(
        ("high", "random", "low"), 4
    )
    rows = [(out / name / "data.jsonl").read_text() for name in ("high", "low")]
    assert rows[0] != rows[1]
    again = CliRunner().invoke(root, ["ablate", "--resume", str(out), "--json"], catch_exceptions=False)
    assert json.loads(again.stdout) == found
    assert "$ mcp-bench" not in again.stderr

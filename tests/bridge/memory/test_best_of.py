"""Best of n: the choice sees no grade, and the grades measure it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.bridge.cli.best_of import best_of
from mcp_bench.bridge.cli.harness import harness
from mcp_bench.bridge.memory.judge import NoJudgeError, answers_kept
from mcp_bench.recorder.errors import StorageError
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.home import home
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, Step
from tests.support.recorded import Episode, planned, record

pytestmark = [pytest.mark.component, pytest.mark.usefixtures("bench_home")]


def recorded(
    agent: str = "oracle",
    conditions: Mapping[str, Any] | None = None,
    seed: int = 7,
    **tasks: Sequence[tuple[str, float]],
) -> None:
    """Record attempts, each with the state that it left and its grade."""
    record(
        [
            (
                planned(name, "dev", repeat=repeat).model_copy(update={"seed": seed}),
                Episode(partial=partial, state={"paid": state}),
            )
            for name, attempts in tasks.items()
            for repeat, (state, partial) in enumerate(attempts)
        ],
        agent=agent,
        **(conditions or {}),
    )


def chosen(*options: str) -> str:
    done = CliRunner().invoke(best_of, ["--repeat", "3", *options])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def test_the_state_of_most_attempts_is_chosen() -> None:
    recorded(
        right=[("x", 0.0), ("y", 1.0), ("y", 1.0)],
        wrong=[("x", 0.0), ("y", 1.0), ("x", 0.0)],
        tied=[("x", 1.0), ("y", 0.0), ("z", 0.0)],
        few=[("x", 1.0)],
    )
    found = json.loads(chosen("--json"))
    assert (found["tasks"], found["n"], found["tasks_with_fewer"]) == (3, 3, 1)
    assert (found["one"], found["any"]) == (pytest.approx(4 / 9), 1.0)
    assert found["chosen"] == pytest.approx(2 / 3)
    assert found["tokens_one"] == 12
    assert "strict: one attempt 0.444, chosen 0.667, any 1.000" in chosen()
    assert "tokens for a task: one attempt 12, chosen 36" in chosen()


def test_attempts_that_change_nothing_are_told_by_their_answers() -> None:
    record(
        [
            (planned("asked", "dev", repeat=repeat), Episode(partial=partial, answer=answer))
            for repeat, (answer, partial) in enumerate(
                [("It is 7.", 0.0), ("It is  8.", 1.0), ("it is 8.", 1.0)]
            )
        ]
    )
    assert json.loads(chosen("--json"))["chosen"] == 1.0


def test_a_task_of_several_agents_is_one_task() -> None:
    """Its attempts resemble each other, so they say less than those at other tasks."""
    tasks = {"a": [("x", 0.0), ("y", 1.0), ("y", 1.0)], "b": [("x", 1.0), ("x", 0.0), ("x", 0.0)]}
    recorded(**tasks)
    once = json.loads(chosen("--json"))
    recorded(agent="other", **tasks)
    both = json.loads(chosen("--json"))
    assert (both["tasks"], both["groups"]) == (2, 4)
    assert both["gain"] == once["gain"]


@pytest.mark.parametrize(
    "other",
    [{"isolation": "uid"}, {"home": "native"}, {"tools": "all"}, {"settings": {"timeout": 60}}],
    ids=lambda other: next(iter(other)),
)
def test_attempts_under_other_conditions_stay_apart(other: dict[str, Any]) -> None:
    """As in `report`: an agent with other tools, or another home, is another agent."""
    recorded(a=[("x", 1.0), ("x", 1.0)])
    recorded(conditions=other, a=[("y", 0.0)])
    with pytest.raises(WrongUseError, match="no task of dev has 3 graded attempts under the same conditions"):
        chosen()
    recorded(a=[("y", 0.0)])
    recorded(conditions=other, a=[("x", 1.0), ("y", 0.0)])
    found = json.loads(chosen("--json"))
    assert (found["tasks"], found["groups"], found["chosen"]) == (1, 2, 0.5)


@pytest.mark.parametrize(
    "other", [{"seed": 8}, {"conditions": {"benchmark_version": "v2"}}], ids=lambda other: next(iter(other))
)
def test_attempts_at_other_worlds_stay_apart(other: dict[str, Any]) -> None:
    """What two worlds have in common by chance is no agreement."""
    recorded(a=[("x", 1.0), ("x", 1.0)])
    recorded(a=[("y", 0.0)], **other)
    with pytest.raises(WrongUseError, match="no task of dev has 3 graded attempts under the same conditions"):
        chosen()
    recorded(a=[("y", 0.0)])
    recorded(a=[("y", 0.0), ("x", 1.0)], **other)
    found = json.loads(chosen("--json"))
    assert (found["tasks"], found["groups"], found["chosen"]) == (1, 2, 0.5)


def test_a_model_chooses_and_is_recorded(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_BENCH_JUDGE_API_KEY", "secret-of-the-judge")
    recorded(
        good=[("x", 0.0), ("x", 0.0), ("y", 1.0)],
        vague=[("x", 1.0), ("x", 0.0), ("y", 0.0)],
    )
    scripts = [
        Script("do good", (Step(text='I choose {"best": 3}.'),), without_tools=True),
        Script("do vague", (Step(text='{"best": 9}'),), without_tools=True),
    ]
    out = tmp_path / "chosen.jsonl"
    with ModelEndpoint(scripts) as endpoint:
        options = ("--judge-model", "m", "--judge-base-url", endpoint.openai_url, "--out", str(out))
        text = chosen(*options)
        asked = [json.dumps(request.body) for request in endpoint.requests]
    assert "chosen 1.000" in text
    assert "1 of its answers chose nothing" in text
    assert all("partial" not in body and "strict" not in body for body in asked)
    *choices, first, _ = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["agreed"] for one in choices] == [1, 2]
    assert first["answer"]["content"] == 'I choose {"best": 3}.'
    assert "secret-of-the-judge" not in out.read_text()


def test_an_answer_that_repeats_itself_chooses_nothing() -> None:
    recorded(good=[("x", 0.0), ("x", 0.0), ("y", 1.0)])
    script = Script("do good", (Step(text='{"best":' * 10_000 + "}"),), without_tools=True)
    with ModelEndpoint([script]) as endpoint:
        text = chosen("--judge-model", "m", "--judge-base-url", endpoint.openai_url)
    assert "1 of its answers chose nothing" in text


def test_answers_that_were_paid_are_not_asked_for_again(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model may be asked once in each command: the second command goes on with the first answer."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    recorded(good=[("x", 0.0), ("x", 0.0), ("y", 1.0)], more=[("x", 1.0), ("x", 0.0), ("y", 0.0)])
    scripts = [
        Script(f"do {name}", (Step(text='{"best": 3}'),), without_tools=True) for name in ("good", "more")
    ]
    out = tmp_path / "chosen.jsonl"
    with ModelEndpoint(scripts) as endpoint:
        asks = ("--judge-model", "m", "--judge-base-url", endpoint.openai_url, "--role-limit", "requests=1")
        with pytest.raises(NoJudgeError, match="Its 1 answers are kept: the same command goes on with them"):
            chosen(*asks, "--out", str(out))
        assert not out.exists()
        [kept] = (home() / "judge").iterdir()
        with kept.open("a", encoding="utf-8") as file:
            file.write('no JSON\n{"role": "ju')  # a kill in mid-write
        with answers_kept("best-of", {"judge_model": "m", "judge_base_url": endpoint.openai_url}, ["else"]):
            pass
        assert "2 tasks, 3 attempts each" in chosen(*asks, "--out", str(out))
        assert len(endpoint.requests) == 2
        with pytest.raises(NoJudgeError, match="are the limit"):
            chosen(*asks)  # answers that were used are forgotten
    assert sum("answer" in json.loads(line) for line in out.read_text().splitlines()) == 2


def test_a_place_that_cannot_be_written_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    recorded(good=[("x", 0.0), ("x", 0.0), ("y", 1.0)])
    script = Script("do good", (Step(text='{"best": 3}'),), without_tools=True)
    with ModelEndpoint([script]) as endpoint:
        asks = ("--judge-model", "m", "--judge-base-url", endpoint.openai_url)
        for options in ((), asks):
            refused = (
                r"cannot write .*nope/x\.jsonl: No such file or directory. Choose --out in a folder that"
            )
            with pytest.raises(WrongUseError, match=refused):
                chosen(*options, "--out", str(tmp_path / "nope" / "x.jsonl"))
        assert endpoint.requests == []
        # only the write shows it: the name of the temporary file beside it is longer
        with pytest.raises(WrongUseError, match=r"File name too long. Choose --out"):
            chosen(*asks, "--out", str(tmp_path / ("x" * 253)))
        assert "chosen 1.000" in chosen(*asks, "--out", str(tmp_path / "x.jsonl"))
        assert len(endpoint.requests) == 1
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 2


def test_a_home_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    recorded(good=[("x", 0.0), ("x", 0.0), ("y", 1.0)], fine=[("x", 0.0), ("x", 0.0), ("y", 1.0)])
    script = Script("do ", (Step(text='{"best": 3}'),) * 3, without_tools=True)
    with ModelEndpoint([script]) as endpoint:
        asks = ("--judge-model", "m", "--judge-base-url", endpoint.openai_url)
        (home() / "judge").touch()
        with pytest.raises(StorageError, match=r"cannot write .*/judge: File exists"):
            chosen(*asks)
        assert endpoint.requests == []
        (home() / "judge").unlink()
        with pytest.raises(NoJudgeError, match="are kept"):
            chosen(*asks, "--role-limit", "requests=1")
        [kept] = (home() / "judge").iterdir()
        kept.unlink()
        kept.symlink_to("/dev/full")
        with pytest.raises(StorageError, match=r"cannot write .*jsonl: No space left"):
            chosen(*asks)


def test_options_of_a_model_need_a_model(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("m: {input: 1, output: 2}")
    for option, value in (
        ("--judge-base-url", "http://127.0.0.1:9/v1"),
        ("--role-limit", "cost=1"),
        ("--prices", str(prices)),
    ):
        for command, *words in ([best_of], [harness, "tips", "--out", str(tmp_path / "x")]):
            with pytest.raises(WrongUseError, match=f"{option} is about a model .* add --judge-model M"):
                CliRunner().invoke(command, [*words, option, value], catch_exceptions=False)


def test_too_few_attempts_are_an_error() -> None:
    recorded(few=[("x", 1.0), ("x", 1.0)])
    with pytest.raises(WrongUseError, match="no task of dev has 3 graded attempts"):
        chosen()

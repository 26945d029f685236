"""`report --compare`: pairs, differences, flips and failures."""

import json
import statistics
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.comparison import compare
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.unit

Invoke = Callable[..., Result]
BROKEN = Episode(partial=None, invalid="endpoint_error", calls=())
REFUSED = (("transfer", {"amount": 1}, "!no money"),)


@pytest.fixture
def runs() -> list[str]:
    """Record Codex and gemini: tasks solved by one or both, an invalid episode, and tasks of one side only."""
    before = [
        (planned("both"), Episode()),
        (planned("lost", repeat=0), Episode()),
        (planned("lost", repeat=1), Episode()),
        (planned("won"), Episode(partial=0.4, calls=REFUSED)),
        (planned("broken_later"), Episode()),
        (planned("only_before"), Episode()),
        (planned("elsewhere", split="test"), Episode(partial=0.5)),
    ]
    after = [
        (planned("both"), Episode()),
        (planned("lost", repeat=0), Episode(partial=0.5)),
        (planned("lost", repeat=1), Episode()),
        (planned("won"), Episode()),
        (planned("broken_later"), BROKEN),
        (planned("only_after"), Episode()),
        (planned("elsewhere", split="test"), Episode(partial=0.6)),
    ]
    return [
        record(before, agent="codex", model="base")[0].id,
        record(after, agent="gemini", model="tuned")[0].id,
    ]


def compared(invoke: Invoke, *options: str) -> dict[str, Any]:
    result = invoke(report, "--compare", *options, "--json")
    assert result.exit_code == 0, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_only_common_valid_tasks_are_paired(runs: list[str], invoke: Invoke) -> None:
    found = compared(invoke, "codex", "gemini")
    assert (found["a"], found["b"]) == ("codex", "gemini")
    held_out, train = found["rows"]
    assert (held_out["split"], held_out["common_tasks"], held_out["partial"]["difference_ci"]) == (
        "test",
        1,
        None,
    )
    assert held_out["partial"]["difference"] == pytest.approx(0.1)
    assert (train["benchmark"], train["split"], train["common_tasks"]) == ("agentdojo", "train", 3)
    assert train["strict"] == {
        "a": pytest.approx(2 / 3),
        "b": pytest.approx(2.5 / 3),
        "difference": pytest.approx(0.5 / 3),
        "difference_ci": [-0.5, 1.0],
    }
    assert train["partial"]["difference"] == pytest.approx((0 - 0.25 + 0.6) / 3)


def test_invalid_episodes_are_shown_and_also_scored_as_0(runs: list[str], invoke: Invoke) -> None:
    train = compared(invoke, "codex", "gemini")["rows"][1]
    a, b = train["sides"]["a"], train["sides"]["b"]
    assert (a["episodes"], a["tasks"], a["invalid"], a["tool_calls"], a["failed_calls"]) == (6, 5, 0, 6, 1)
    assert (b["episodes"], b["tasks"], b["invalid"], b["invalid_reasons"]) == (6, 4, 1, {"endpoint_error": 1})
    lowered = train["invalid_as_0"]
    assert (lowered["common_tasks"], lowered["strict"]["b"]) == (4, pytest.approx(2.5 / 4))
    assert lowered["strict"]["difference"] == pytest.approx((1 - 0.5 - 1) / 4)


def test_flips_are_listed_with_their_episodes(runs: list[str], invoke: Invoke) -> None:
    flips = compared(invoke, "codex", "gemini")["rows"][1]["flips"]
    (won,), (lost,) = flips["fail_to_pass"], flips["pass_to_fail"]
    assert (won["task"], won["a"]["solved"], won["b"]["solved"]) == ("agentdojo/won", 0, 1)
    assert lost["task"] == "agentdojo/lost"  # solved in half of its attempts, not in most
    assert lost["b"] == {"solved": 1, "episodes": 2, "partial": 0.75}
    assert len(lost["episodes"]) == 4
    backwards = compared(invoke, "gemini", "codex")["rows"][1]["flips"]
    assert backwards["fail_to_pass"][0]["task"] == "agentdojo/lost"


@pytest.mark.parametrize(
    "sides", [("base", "tuned"), ("agent=codex", "model=tuned"), ("agent=codex,model=base", "gemini")]
)
def test_a_side_is_an_agent_a_model_a_run_or_explicit(
    runs: list[str], invoke: Invoke, sides: tuple[str, str]
) -> None:
    rows = compared(invoke, "codex", "gemini")["rows"]
    assert compared(invoke, *sides)["rows"] == rows
    assert compared(invoke, *runs)["rows"] == rows
    assert compared(invoke, f"run={runs[0]}", runs[1])["rows"] == rows
    length = next(n for n in range(len(runs[0])) if runs[0][n] != runs[1][n]) + 1
    short = [run[:length] for run in runs]
    assert compared(invoke, f"run={short[0]}", short[1])["rows"] == rows


def test_other_groups(runs: list[str], invoke: Invoke) -> None:
    (row,) = compared(invoke, "codex", "gemini", "--by", "domain")["rows"]
    assert (row["domain"], row["common_tasks"]) == ("banking", 4)
    assert "split" not in row


def test_the_text(runs: list[str], invoke: Invoke) -> None:
    shown = invoke(report, "--compare", "codex", "gemini").output
    assert "agentdojo train: 3 common tasks" in shown
    assert (
        "A codex: partial 0.800, strict 0.667  (6 episodes, 5 tasks, 0 invalid, 6 calls, 1 failed)" in shown
    )
    assert (
        "B gemini: partial 0.917, strict 0.833  (6 episodes, 4 tasks, 1 invalid, 5 calls, 0 failed, 1 endpoint_error)"
        in shown
    )
    assert "B - A: partial +0.117 [-0.250, +0.600], strict +0.167 [-0.500, +1.000]" in shown
    assert "with invalid as 0, on 4 tasks: B - A: partial -0.16" in shown
    assert "fail -> pass: 1\n    agentdojo/won  solved 0/1 -> 1/1\n" in shown
    assert "pass -> fail: 1\n    agentdojo/lost  solved 2/2 -> 1/2\n" in shown


def test_unknown_and_ambiguous_sides(runs: list[str], invoke: Invoke) -> None:
    unknown = invoke(report, "--compare", "codx", "gemini").exception
    assert isinstance(unknown, UnknownNameError)
    assert "did you mean codex" in str(unknown)
    both = invoke(report, "--compare", "codex", "base").exception
    assert isinstance(both, WrongUseError)
    assert "both sides" in str(both)
    record([(planned("both"), Episode())], agent="tuned", model="x")
    ambiguous = invoke(report, "--compare", "codex", "tuned").exception
    assert isinstance(ambiguous, WrongUseError)
    assert "agent=tuned or model=tuned" in str(ambiguous)
    assert compared(invoke, "codex", "agent=tuned")["rows"][-1]["common_tasks"] == 1
    short = invoke(report, "--compare", "run=run_,agent=codex", "gemini").exception
    assert isinstance(short, WrongUseError)
    assert "give a longer prefix" in str(short)


def test_options_of_the_agent_select_a_side(invoke: Invoke) -> None:
    for options, partial in (({"effort": "high"}, 1.0), ({"effort": "low"}, 0.5), ({}, 0.0)):
        record([(planned("a"), Episode(partial=partial))], settings={"options": options})
    for a, b, difference in (
        ("effort=low", "effort=high", 0.5),
        ("agent=oracle,effort=low", "effort=", -0.5),
    ):
        (row,) = compared(invoke, a, b)["rows"]
        assert row["partial"]["difference"] == difference
    both = invoke(report, "--compare", "effort=low", "agent=oracle").exception
    assert "by an option of the agent" in str(both)
    for wrong, reason in (
        ("effort=medium", "unknown effort 'medium' (known: high, low)"),
        ("effort=high,run=run_x", "unknown run 'run_x'"),
        ("efort=low", "did you mean effort"),
    ):
        unknown = invoke(report, "--compare", "effort=low", f"agent=oracle,{wrong}").exception
        assert isinstance(unknown, UnknownNameError) and reason in str(unknown)


def test_limits_select_a_side(invoke: Invoke) -> None:
    for seconds, partial in ((60.0, 0.0), (900.0, 1.0)):
        record([(planned("a"), Episode(partial=partial))], settings={"timeout": seconds})
    assert compared(invoke, "timeout=60", "timeout=900")["rows"][0]["partial"]["difference"] == 1


attempts = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from([None, 0.0, 0.5, 1.0])), min_size=1, max_size=20
)


def stored(number: int, agent: str, task: str, partial: float | None) -> StoredEpisode:
    return StoredEpisode(
        id=f"{agent}{number}", run="r", benchmark="b", benchmark_version="1", agent=agent, agent_version="1",
        model=None, isolation="none", home="sealed", tools_mode="all", task=task, split="train", domain="d",
        prompt="", seed=0, repeat=number, attempt=1, started_us=0, ended_us=1, termination="agent_exit",
        invalid=None if partial is not None else "endpoint_error", invalid_detail=None, exit_code=0, answer=None,
        usage=None, connections=1, calls=0, failed_calls=0, partial=partial,
        strict=None if partial is None else partial == 1, grader_version="1",
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(attempts, attempts)
def test_differences_equal_a_simple_computation(
    ours: list[tuple[str, float | None]], theirs: list[tuple[str, float | None]]
) -> None:
    episodes = [stored(n, "A", *story) for n, story in enumerate(ours)]
    episodes += [stored(n, "B", *story) for n, story in enumerate(theirs)]
    (row,) = compare(episodes, "A", "B", ["split"])["rows"]

    def means(story: list[tuple[str, float | None]], invalid: list[float]) -> dict[str, float]:
        of_task = {
            t: [s for u, p in story if u == t for s in ([p] if p is not None else invalid)] for t, _ in story
        }
        return {task: statistics.fmean(scores) for task, scores in of_task.items() if scores}

    for found, invalid in ((row, []), (row["invalid_as_0"], [0.0])):
        a, b = means(ours, invalid), means(theirs, invalid)
        common = a.keys() & b.keys()
        assert found["common_tasks"] == len(common)
        if common:
            difference = statistics.fmean(b[task] - a[task] for task in common)
            assert found["partial"]["difference"] == pytest.approx(difference)
            assert found["partial"]["b"] - found["partial"]["a"] == pytest.approx(difference)
        else:
            assert found["partial"]["difference"] is None


def test_the_same_credits_of_other_tasks_are_no_difference() -> None:
    """Their sums differ by 1e-16, and a loop would promote a model for that."""
    credits = (2 / 3, 1 / 3, 0.0, 1 / 3, 0.75, 1 / 3), (0.0, 1 / 3, 0.75, 2 / 3, 1 / 3, 1 / 3)
    episodes = [
        stored(n, agent, "abcdef"[n], partial)
        for agent, partials in zip("AB", credits, strict=True)
        for n, partial in enumerate(partials)
    ]
    (row,) = compare(episodes, "A", "B", [])["rows"]
    assert row["partial"]["b"] > row["partial"]["a"]  # by rounding alone
    assert row["partial"]["difference"] == 0


def test_models_of_roles_with_the_same_first_word_are_not_mixed(invoke: Invoke) -> None:
    for size in ("8B", "70B"):
        user = {"model": f"Llama 3 {size}", "base_url": "http://127.0.0.1:1/v1"}
        settings = {"role_models": {"user": user}}
        record([(planned("a"), Episode())], agent="codex", settings=settings)
    record([(planned("a"), Episode())], agent="gemini")
    refused = invoke(report, "--compare", "codex", "gemini").exception
    assert isinstance(refused, WrongUseError)
    assert "different conditions (user Llama 3 8B; user Llama 3 70B)" in str(refused)


def test_versions_of_a_benchmark_are_named(invoke: Invoke) -> None:
    """Their tasks or grades may differ, so attempts at both are no attempts at one task."""
    for version in ("1", "2"):
        record([(planned("a"), Episode())], agent="codex", benchmark_version=version)
    record([(planned("a"), Episode())], agent="gemini", benchmark_version="2")
    said = "agentdojo was recorded in versions 1 and 2: their tasks or grades may differ"
    assert said in invoke(report, "--compare", "codex", "gemini").stdout
    assert "episodes of several versions of this benchmark" in invoke(report).stderr
    [codex, gemini] = json.loads(invoke(report, "--json").stdout)
    assert (codex["pass_k"], gemini["benchmark_version"]) == ([], "2")

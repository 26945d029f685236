"""`--max-cost`, `--max-calls`, and the choice of tasks."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.support.agents.node_clis import node_environ
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step

pytestmark = pytest.mark.system

Write = Callable[[str], str]

COSTS = """
server = Server(); server.connect()
open(os.path.join(os.environ["HOME"], "usage"), "w").write('{"cost_usd": 0.4, "input_tokens": 1500}')
"""
GREEDY = "server = Server(); server.connect()\nwhile server.call('read', key='one'): pass"
PRICED = ("record", "--agent", "priced", "--benchmark", "notebook", "--repeat", "4")


def test_no_episode_starts_after_max_cost_is_reached(bench, script: Write) -> None:
    done = bench.run(*PRICED, "--max-cost", "1", "--agent-option", script(COSTS), "--json", code=1)
    summary = json.loads(done.stdout)
    assert summary["cost_usd"] == pytest.approx(1.2)
    assert (summary["graded"], summary["stopped"], summary["input_tokens"]) == (3, True, 4500)
    assert "--max-cost is reached: $1.20 of $1.00 spent" in done.stderr
    run = bench.run_folder.name
    assert f"mcp-bench record --resume {run} --max-cost MORE" in done.stderr

    found = []
    for limit in ((), ("--max-cost", "2"), ("--max-cost", "10")):  # earlier costs still count
        resumed = bench.run("record", "--resume", run, *limit, "--json", code=None)
        summary = json.loads(resumed.stdout)
        found.append((resumed.returncode, summary["episodes_now"], summary["graded"], summary["cost_usd"]))
    assert found == [
        (1, 0, 3, pytest.approx(1.2)),
        (1, 2, 5, pytest.approx(2)),
        (0, 3, 8, pytest.approx(3.2)),
    ]
    assert len(bench.grades()) == 8


def test_what_was_put_off_when_the_money_ran_out_is_cut_short(bench, script: Write) -> None:
    """The first episode is put off, since its agent reports a failure; the last one costs the rest."""
    fault = 'open(os.path.join(os.environ["HOME"], "fault"), "w").write("endpoint_error: 503")'
    fails = script(f'{COSTS}if "colours" in CONFIG["prompt"]: {fault}')
    command = ("--repeat", "1", "--retries", "0", "--max-cost", "0.8", "--agent-option", fails, "--json")
    done = bench.run(*PRICED, *command, code=1)
    summary = json.loads(done.stdout)
    assert (summary["graded"], summary["invalid"], summary["stopped"]) == (1, 1, True)
    assert "--max-cost is reached: $0.80 of $0.80 spent" in summary["stopped_by"]
    assert f"mcp-bench record --resume {bench.run_folder.name} --max-cost MORE" in done.stderr


def test_attempts_without_a_cost_are_counted(bench, script: Write) -> None:
    silent = COSTS + 'if "colours" in CONFIG["prompt"]: os.unlink(os.path.join(os.environ["HOME"], "usage"))'
    done = bench.run(*PRICED, "--max-cost", "1", "--agent-option", script(silent), code=1)
    assert "(3 attempts reported no cost)" in done.stderr
    assert len(bench.grades()) == 6


def test_max_cost_needs_an_agent_that_reports_cost(bench) -> None:
    done = bench.run("record", "--agent", "noop", "--benchmark", "notebook", "--max-cost", "1", code=2)
    assert "'noop' does not report its cost" in done.stderr
    assert "claude-code" in done.stderr
    assert not (bench.home / "runs").exists()
    bench.run("record", "--agent", "noop", "--benchmark", "notebook", "--limit", "1")
    bench.run("record", "--resume", bench.run_folder.name, "--max-cost", "1", code=2)


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    steps = (Step((ScriptedCall("write", {"key": "sky", "value": "cerulean-sentinel"}),)), Step(text="Done."))
    with ModelEndpoint([Script("Fill the page of colours.", steps)]) as running:
        yield running


def test_max_cost_stops_the_real_claude_code(bench, endpoint: ModelEndpoint) -> None:
    bench.environ.update(PATH=node_environ(bench.home.parent)["PATH"], ANTHROPIC_API_KEY="dummy-key")
    done = bench.run(
        "record", "--agent", "claude-code", "--benchmark", "notebook", "--task", "colours", "--repeat", "3",
        "--model", "claude-sonnet-4-5", "--base-url", endpoint.anthropic_url, "--max-cost", "0.0001", "--json",
        code=1,
    )  # fmt: skip
    summary = json.loads(done.stdout)
    assert summary["graded"] == 1
    assert summary["cost_usd"] > 0.0001
    (episode,) = bench.rows("select usage from episodes")
    assert json.loads(episode["usage"])["cost_usd"] == summary["cost_usd"]
    assert "Ended early" in done.stderr


def test_the_lower_call_limit_applies(bench, script: Write) -> None:
    command = ("record", "--agent", "script", "--benchmark", "notebook", "--agent-option", script(GREEDY))
    bench.run(*command, "--max-calls", "5")  # the task `numbers` allows 3
    counts = bench.rows(
        "select task, termination, (select count(*) from calls c where c.episode = e.id and execution) as calls"
        " from episodes e order by task"
    )
    assert counts == [
        {"task": "colours", "termination": "max_calls", "calls": 5},
        {"task": "numbers", "termination": "max_calls", "calls": 3},
    ]


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["--split", "test", "--task", "simple-task-progress.1.train.0"], "in split 'train', not in 'test'"),
        (["--split", "tset", "--task", "simple-task-progress.1.train.0"], "did you mean test"),
        (["--tag", "level-1", "--task", "simple-task-progress.1.train.0"], "leave out one"),
        (["--split", "dev", "--tag", "level-1", "--tag", "level-2"], "with the tags level-1, level-2"),
        (["--split", "dev", "--tag", "level1"], "did you mean level-1"),
        (["--max-calls", "0"], "'--max-calls'"),
        (["--max-cost", "0"], "'--max-cost'"),
        (["--max-cost", "nan"], "'--max-cost'"),
        (["--retries", "-1"], "'--retries'"),
        (
            ["--server", "true", "--max-calls", "3"],
            "--server records without a benchmark: leave out --max-calls",
        ),
    ],
)
def test_bad_options_are_refused(bench, args: list[str], hint: str) -> None:
    done = bench.run("record", "--agent", "oracle", *args, code=2)
    assert hint in done.stderr
    assert not (bench.home / "runs").exists()


def test_a_task_can_be_named_with_its_split(bench) -> None:
    task = "simple-task-progress.1.train.0"
    bench.run("record", "--agent", "oracle", "--split", "train", "--task", task)
    assert bench.rows("select task, split from episodes") == [{"task": task, "split": "train"}]


def test_tags_choose_tasks_of_a_split(bench) -> None:
    bench.run("record", "--agent", "noop", "--split", "dev", "--tag", "level-2", "--limit", "2")
    assert [row["task"].split(".")[1:3] for row in bench.rows("select task from episodes")] == [
        ["2", "dev"]
    ] * 2


def test_repeats_of_an_imperfect_oracle_differ(bench) -> None:
    """The mistakes differ between repeats and are the same in another run."""
    command = (
        "record", "--agent", "oracle", "--task", "finance-close-checklist.4.train.0", "--repeat", "4",
        "--agent-option", "drop=0.5", "--json",
    )  # fmt: skip
    played = []
    for _ in range(2):
        bench.home = bench.home.with_name(f"{bench.home.name}-again")
        bench.run(*command)
        rows = bench.rows(
            "select e.repeat, group_concat(c.tool || c.arguments, '|') as calls from episodes e"
            " join calls c on c.episode = e.id group by e.id order by e.repeat"
        )
        played.append([row["calls"] for row in rows])
    assert played[0] == played[1]
    assert len(set(played[0])) > 1

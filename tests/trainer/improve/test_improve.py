"""`mcp-bench improve` from end to end, with scripted agents: see tests/support/improvement/scripted.py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from mcp_bench.servers import needs
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.registry import registered
from mcp_bench.trainer.cli.improve import improve
from mcp_bench.trainer.improve.folder import Arm
from mcp_bench.trainer.improve.recordings import Recordings
from mcp_bench.trainer.trial import commands
from mcp_bench.trainer.trial.recordings import RunStoppedError
from tests.support.bench_commands import FIXTURES, ROOT_MODULE, RPC
from tests.support.improvement.scripted import BAD, GOOD, dev_ids, lesson, obedient, proposing
from tests.support.processes.forked import module_command
from tests.support.training.tiny_checkpoints import make_tokenizer, qwen3, save, template

pytestmark = pytest.mark.system

HELD = "door-eb21bb"
"""Where the parcel of the test task oak.1.test.0 goes."""
FEW = ("--train", "2", "--repeat", "1")


@pytest.fixture(autouse=True)
def warm_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start steps as forks of a process that has imported mcp-bench, with the fixtures' benchmark and agent."""
    monkeypatch.setattr(commands, "MODULE", module_command(ROOT_MODULE)[1:])
    monkeypatch.setenv("MCP_BENCH_ISOLATION", "none")
    monkeypatch.setenv("PYTHONPATH", str(FIXTURES))
    monkeypatch.syspath_prepend(str(FIXTURES))
    registered.cache_clear()  # what other tests have found does not have them
    yield
    registered.cache_clear()


def improved(folder: Path, *options: str | Path, few: Sequence[str] = FEW) -> Result:
    agent = ("--benchmark", "doors", "--agent", "script", "--agent-option", f"file={obedient(folder)}")
    tasks = ("--dev", str(dev_ids(folder)))
    return CliRunner().invoke(improve, [str(folder / "out"), *agent, *tasks, *few, *map(str, options)])


def history(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, (result.output, result.exception)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def harness(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "INSTRUCTIONS.md").write_text(text, encoding="utf-8")
    return folder


def test_a_leak_is_refused_and_only_a_good_lesson_kept(tmp_path: Path) -> None:
    """The planted literal of a test task costs no episode, the bad lesson fails the gate, the good one passes."""
    candidates = [
        word
        for name, text in (("leaks", f"Look for {HELD}."), ("bad", BAD), ("good", GOOD))
        for word in ("--candidate", harness(tmp_path / name, text))
    ]
    result = improved(tmp_path, *candidates, "--test", "2", "--json", "--html", tmp_path / "page.html")
    found = history(result)
    leak, bad, good = found["generations"]
    assert (leak["verdict"], leak["for_agents"]) == (
        "refused",
        "harness edit: refused: values of tasks that are kept back",
    )
    assert leak["why"] == f"INSTRUCTIONS.md, line 1: literal '{HELD}' of the test task oak.1.test.0"
    assert not list((tmp_path / "out").glob("h1-*"))
    assert (bad["verdict"], bad["difference"]) == ("not promoted", -0.5)
    assert (good["verdict"], good["fixed"], good["broken"]) == ("promoted", 10, 0)
    assert found["best"] == {"harness": 3, "weights": 0}
    assert found["stopped"] == "3 generations are done"
    assert (tmp_path / "out/best/INSTRUCTIONS.md").read_text() == GOOD
    # the gate of three arms, confirm of two, and test of two
    assert found["spent"]["episodes"] == 3 * 10 + 2 * 10 + 2 * 2
    page = (tmp_path / "page.html").read_text()
    assert "candidate good" in page and "What the changes are worth on test" in page
    shown = CliRunner().invoke(improve, [str(tmp_path / "out"), "--show"])
    assert "On test: harness +0.500 [+0.500, +0.500]" in shown.stdout
    assert history(CliRunner().invoke(improve, [str(tmp_path / "out"), "--json"])) == found


def test_a_feedback_agent_reads_edits_and_proposes(tmp_path: Path) -> None:
    agent = proposing(tmp_path, [lesson("good", GOOD)])
    options = ("--feedback-agent", "script", "--feedback-option", f"file={agent}", "--generations", "1")
    found = history(improved(tmp_path, *options, "--json"))
    (one,) = found["generations"]
    assert (one["action"], one["reason"], one["verdict"]) == ("harness", "because of good", "promoted")
    answers = agent.with_name("proposing.py.answers").read_text()
    assert "doors oak | partial 0.50" in answers and HELD not in answers
    assert "dev" not in answers


def test_a_feedback_agent_that_crashes_has_proposed_nothing(tmp_path: Path) -> None:
    """Its generation is not used up: the next start asks again."""
    broken = tmp_path / "broken.py"
    broken.write_text(f"{RPC}\nServer().connect()\nraise SystemExit(7)\n")
    result = improved(tmp_path, "--feedback-agent", "script", "--feedback-option", f"file={broken}")
    assert "it crashed before its first call" in str(result.exception)
    assert not (tmp_path / "out" / "generation-1" / "proposal.json").exists()


def test_what_cannot_help_costs_no_episode(tmp_path: Path) -> None:
    """Texts that were tried or are there, tools that are not there, options that the agent does not take."""
    start = harness(tmp_path / "start", "Be calm.")
    leak = harness(tmp_path / "leak", f"Look for {HELD}.")
    again = harness(tmp_path / "again", f"Look for {HELD}.")
    names = ("tools", "options", "unknown", "escaped", "broken")
    tools, options, unknown, escaped, broken = (harness(tmp_path / name, "x") for name in names)
    (tools / "tools.yaml").write_text("knok: Knock.")
    (options / "agents.yaml").write_text("script: {fiel: x}")
    (unknown / "agents.yaml").write_text("agent: {temperature: 0.2}")
    (escaped / "skills" / "calm").mkdir(parents=True)
    (escaped / "skills" / "calm" / "SKILL.md").write_text("---\nname: calm\ndescription: Be calm.\n---\nx")
    (escaped / "tools.yaml").write_text(f'knock: "Knock at {HELD.replace("e", chr(92) + "x65")}."')
    (broken / "agents.yaml").write_text(f'chat: {{system: "Doors:\\n{HELD}"}}')
    made = (leak, again, start, tools, options, unknown, escaped, broken)
    candidates = [word for one in made for word in ("--candidate", one)]
    found = history(improved(tmp_path, "--harness", start, *candidates, "--json"))
    assert found["spent"]["episodes"] == 0
    assert [one["why"].partition(", line")[0] for one in found["generations"]] == [
        "INSTRUCTIONS.md",
        "it was tried in generation 1",
        "it is the harness at the start",
        "h4/tools.yaml: benchmark 'doors' has no tool 'knok' (did you mean knock?)",
        "agents.yaml: `record` does not take these agents or options",
        "agents.yaml: `record` does not take these agents or options",
        "tools.yaml, as the agent reads them",
        "agents.yaml, as the agent reads them",
    ]


def test_what_cannot_work_is_found_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Tasks that cannot run here, and options of `record`: also if the model is served only later."""
    good, tokenizer = harness(tmp_path / "good", GOOD), make_tokenizer(template("qwen3_training"))
    base = save(qwen3(len(tokenizer)), tokenizer, tmp_path / "base")
    trained = ("--recipe", "tiny-cpu-grpo", "--set", f"model={{base: {base}}}")
    ours = ("--agent", "script", "--agent-option", f"file={obedient(tmp_path)}")
    for agent in (trained, ours):
        words = ["--benchmark", "doors", *agent, "--dev", str(dev_ids(tmp_path)), "--candidate", str(good)]
        done = CliRunner().invoke(improve, [str(tmp_path / "out"), *words, "--", "--timout", "300"])
        assert "--timout" in capfd.readouterr().err, done.exception
        assert not (tmp_path / "out").exists()
    monkeypatch.setattr(needs, "missing", lambda need: "there is no GPU" if need == "gpu" else None)
    words = ["--benchmark", "improve", *ours, "--dev", "24", "--candidate", str(good), "--", "--timout", "3"]
    done = CliRunner().invoke(improve, [str(tmp_path / "out"), *words])
    assert re.search(r"Left out: \d+ tasks that cannot run here: there is no GPU \(", done.stderr)
    monkeypatch.setattr(needs, "missing", lambda need: "nothing is here")
    done = CliRunner().invoke(improve, [str(tmp_path / "out"), "--task", "codec", *words])
    assert "tasks that cannot run here: nothing is here (codec.train.0" in str(done.exception)


def test_an_agent_that_reads_what_is_not_for_it_proposes_nothing(tmp_path: Path, bench_home: Path) -> None:
    script = proposing(tmp_path, [lesson("good", GOOD)])
    planted = f"""
import glob
for path in glob.glob({str(bench_home / "runs")!r} + "/*/answers.json"):
    server.call("search", query=open(path).read())
"""
    script.write_text(script.read_text() + planted)
    options = ("--feedback-agent", "script", "--feedback-option", f"file={script}", "--generations", "1")
    (one,) = history(improved(tmp_path, *options, "--json"))["generations"]
    assert one["verdict"] == "refused"
    assert one["why"].startswith("the feedback agent read what is not for it: see mcp-bench show ep_")


def test_a_proposal_that_cannot_be_recorded_is_not_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a bad recording of the best so far says nothing about the proposal."""
    measured = Recordings.scores

    def stopped(self: Recordings, arm: Arm, what: str, numbers: int) -> Any:
        if arm == Arm(1):
            raise RunStoppedError("20 episodes in a row were invalid: endpoint_error")
        return measured(self, arm, what, numbers)

    def outage(self: Recordings, arm: Arm, what: str, numbers: int) -> Any:
        scores, _, total = measured(self, arm, what, numbers)
        return scores, total // 2, total

    good = harness(tmp_path / "good", GOOD)

    def one_less(self: Recordings, arm: Arm, what: str, numbers: int) -> Any:
        scores, invalid, total = measured(self, arm, what, numbers)
        return dict(list(scores.items())[1:]), invalid, total

    with monkeypatch.context() as patch:
        patch.setattr(Recordings, "scores", outage)
        result = improved(tmp_path, "--candidate", good)
        assert "5 of 10 episodes of h0-w0 are invalid" in str(result.exception)
        patch.setattr(Recordings, "scores", one_less)
        result = CliRunner().invoke(improve, [str(tmp_path / "out")])
        assert "only 9 tasks of h0-w0 were graded, and 10 are needed: mend that" in str(result.exception)
    assert not (tmp_path / "out" / "generation-1" / "decision.json").exists()
    monkeypatch.setattr(Recordings, "scores", stopped)
    (one,) = history(CliRunner().invoke(improve, [str(tmp_path / "out"), "--json"]))["generations"]
    assert one["verdict"] == "not promoted"
    assert one["why"].startswith("the recording of h1-w0 was stopped: 20 episodes in a row")


def test_an_outage_is_no_verdict_on_a_proposal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one that ends, nor one that lasts: the best so far cannot be recorded then, either."""
    measured = Recordings.scores
    failing = {(Arm(1), "gate"), (Arm(0), "probe")}

    def outage(self: Recordings, arm: Arm, what: str, numbers: int) -> Any:
        scores, invalid, total = measured(self, arm, what, numbers)
        return scores, total if (arm, what) in failing else invalid, total

    def passing(self: Recordings, arm: Arm, what: str, numbers: int) -> Any:
        found = outage(self, arm, what, numbers)
        failing.discard((arm, what))
        return found

    monkeypatch.setattr(Recordings, "scores", outage)
    result = improved(tmp_path, "--candidate", harness(tmp_path / "good", GOOD))
    assert str(result.exception).startswith("10 of 10 episodes of h1-w0 are invalid")
    assert str(result.exception).endswith("h0-w0 fails now, too: mend that, and start again")
    assert not (tmp_path / "out" / "generation-1" / "decision.json").exists()
    monkeypatch.setattr(Recordings, "scores", passing)
    (one,) = history(CliRunner().invoke(improve, [str(tmp_path / "out"), "--json"]))["generations"]
    assert one["verdict"] == "promoted"


def test_the_best_harness_is_there_while_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Recordings.scores

    def stopped(self: Recordings, arm: Arm, what: str, numbers: int) -> Any:
        if arm == Arm(2):
            raise commands.StepFailedError("stopped")
        return measured(self, arm, what, numbers)

    monkeypatch.setattr(Recordings, "scores", stopped)
    good, bad = harness(tmp_path / "good", GOOD), harness(tmp_path / "bad", BAD)
    result = improved(tmp_path, "--candidate", good, "--candidate", bad)
    assert str(result.exception) == "stopped"
    assert (tmp_path / "out/best/INSTRUCTIONS.md").read_text() == GOOD


def test_a_spent_budget_stops_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    good = harness(tmp_path / "good", GOOD)
    first = history(improved(tmp_path, "--candidate", good, "--budget-episodes", "2", "--json"))
    assert first["stopped"] == "the budget is spent: 0 of 2 episodes are used, and 10 would be next"
    assert (first["generations"], first["best"]) == ([], {"harness": 0, "weights": 0})
    refused = CliRunner().invoke(improve, [str(tmp_path / "out"), "--train", "9"])
    assert refused.exit_code == 2 and "leave out --train" in refused.output
    refused = CliRunner().invoke(improve, [str(tmp_path / "out"), "--", "--timeout", "5"])
    assert refused.exit_code == 2 and "leave out the options after --" in refused.output
    before = (tmp_path / "out" / "improve.json").read_text()
    unknown = CliRunner().invoke(improve, [str(tmp_path / "out"), "--budget-usd", "5"])
    assert isinstance(unknown.exception, commands.StepFailedError)  # `script` reports no cost
    assert (tmp_path / "out" / "improve.json").read_text() == before
    more = history(CliRunner().invoke(improve, [str(tmp_path / "out"), "--budget-episodes", "12", "--json"]))
    assert more["stopped"] == "the budget is spent: 10 of 12 episodes are used, and 10 would be next"


def test_wrong_use_leaves_no_folder(tmp_path: Path) -> None:
    good = harness(tmp_path / "good", GOOD)
    own = ("--agent", "chat")  # the last one counts
    learns = ("--recipe", "tiny-cpu-grpo", "--set=model.base=x", "--rl-steps=3")
    wrong: list[tuple[list[str | Path], str]] = [
        ([], "who proposes changes? Name an agent with --feedback-agent"),
        (["--candidate", good, "--policy", "rul"], "unknown policy 'rul' (did you mean rule?)"),
        (["--candidate", good, "--policy", "fixed:harnes"], "unknown action 'harnes'"),
        (["--candidate", good, "--policy", "fixed:train"], "fixed:train trains: give --recipe"),
        (["--candidate", good, "--dev", "8"], "--dev has 8 tasks, of which"),
        (["--candidate", good, "--dev", "40", "--task", "oak"], "--dev has 20 tasks, of which"),
        (["--candidate", good, "--dev", "40", "--task", "elm"], "--train 2 selects no task of elm"),
        (["--candidate", good, "--feedback-agent", "script"], "exclude each other"),
        (["--candidate", tmp_path / "none"], "is no folder"),
        (["--candidate", good, "--benchmark", "door"], "unknown benchmark 'door'"),
        (["--candidate", good, "--recipe", "tiny-cpu", *own], "names no model to start from"),
        (["--candidate", good, "--set", "model.base=x"], "--set needs --recipe"),
        (["--candidate", good, "--feedback-model", "m"], "--feedback-model needs --feedback-agent"),
        (["--candidate", good, "--feedback-timeout", "9"], "--feedback-timeout needs --feedback-agent"),
        (["--candidate", good, "--reveal"], "--reveal needs --feedback-agent"),
        (["--candidate", good, "--min-partial", "0.9"], "--min-partial needs --recipe"),
        (
            ["--candidate", good, "--policy", "fixed:stop"],
            "fixed:stop tries no harness: leave out --candidate",
        ),
        (["--candidate", good, *learns, *own, "--policy", "rule"], "rule never learns from reward"),
        (["--candidate", good, "--rl-steps", "3"], "--rl-steps needs --recipe"),
        (["--candidate", good, "--recipe", "tiny-cpu"], "leave out --agent"),
        (["--candidate", good, "--html", "page.txt"], "the file name must end with .html"),
        (["--candidate", good, "--", "--repeat=3"], "--repeat=3 after -- is chosen by improve itself"),
        (["--candidate", good, "--", "--model", "m"], "--model after -- is chosen by improve itself"),
        (["--candidate", good, "--", "--dry-run"], "--dry-run after -- is chosen by improve itself"),
        (
            ["--candidate", good, *learns, *own, "--", "--judge-model", "m"],
            "--judge-model after -- needs --judge-base-url URL",
        ),
    ]
    for options, reason in wrong:
        result = improved(tmp_path, *options)
        assert isinstance(result.exception, BenchError), (options, result.output)
        assert reason in str(result.exception)
        assert not (tmp_path / "out").exists()


def test_a_wrong_option_is_named_before_tasks_are_built(tmp_path: Path) -> None:
    """No task can be built of a benchmark that is not there."""
    asked = ("--candidate", harness(tmp_path / "good", GOOD), "--benchmark", "door")
    for options, reason in (
        (("--policy", "rul"), "unknown policy 'rul'"),
        (("--test", "none.txt"), "--test none.txt: neither a number of tasks nor a readable file"),
        (("--set", "model.base=x"), "--set needs --recipe"),
        (("--seed", str(-(2**63) - 1)), "seed is -9223372036854775809: it should be a number of 64 bits"),
    ):
        assert reason in str(improved(tmp_path, *asked, *options).exception)


def test_an_agent_that_cannot_record_is_named_at_once(tmp_path: Path) -> None:
    good = harness(tmp_path / "good", GOOD)
    result = improved(tmp_path, "--candidate", good, "--agent-option", "fiel=x")
    assert isinstance(result.exception, commands.StepFailedError)
    assert not (tmp_path / "out").exists()


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    result = improved(tmp_path, "--candidate", harness(tmp_path / "good", GOOD))
    assert "is not empty" in str(result.exception)
    shown = CliRunner().invoke(improve, [str(tmp_path / "out"), "--show"])
    assert isinstance(shown.exception, BenchError) and "no improvement in" in str(shown.exception)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine"]


def test_help_names_examples() -> None:
    text = CliRunner().invoke(improve, ["--help"]).output
    assert isinstance(improve, click.Command) and "mcp-bench improve better --budget-hours 9" in text

"""Commands of steps: they end with their parent, get one interrupt per Ctrl-C, and fail without output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_bench.recorder.paths import runs_dir
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.trainer.cli.loop import loop
from mcp_bench.trainer.loop import training
from mcp_bench.trainer.loop.start import begin
from mcp_bench.trainer.loop.steps import Steps
from mcp_bench.trainer.loop.torchrun import launcher
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.rl.folder import RLFolder
from mcp_bench.trainer.trial import commands
from mcp_bench.trainer.trial.commands import FruitlessStepError, StepFailedError, run
from mcp_bench.trainer.trial.recordings import record
from tests.support.bench_commands import ROOT_MODULE
from tests.support.engines import RAY_STAND_IN
from tests.support.processes.forked import module_command

pytestmark = pytest.mark.system

TASK, TRAINING_TASK = (f"simple-contact-details.1.{split}.0" for split in ("dev", "train"))
# a step that reports when it can be interrupted, and how many interrupts it got
COUNTS = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
with open({fifo!r}, "w") as output:
    print("started", file=output, flush=True)
    signal.sigwait([signal.SIGINT])
    again = signal.sigtimedwait([signal.SIGINT], 1)
    print("once" if again is None else "twice", file=output)
"""
LOOP = """
from mcp_bench.trainer.trial.commands import run
run(["x"], launcher=["-c", {child!r}])
"""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def warm_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start steps as forks of a process that has imported mcp-bench. They record without isolation."""
    monkeypatch.setattr(commands, "MODULE", module_command(ROOT_MODULE)[1:])
    monkeypatch.setenv("MCP_BENCH_ISOLATION", "none")


def loop_with(child: str) -> subprocess.Popen[str]:
    """Start a process with one step in a new process group, as a terminal would."""
    argv = [sys.executable, "-c", LOOP.format(child=child)]
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_one_ctrl_c_sends_one_interrupt_to_the_step(fifo: Path) -> None:
    with loop_with(COUNTS.format(fifo=str(fifo))) as process, fifo.open() as output:
        assert output.readline() == "started\n"
        os.killpg(process.pid, signal.SIGINT)
        assert output.read() == "once\n"
        _, err = process.communicate(timeout=60)
    assert process.returncode != 0 and "KeyboardInterrupt" in err


def test_a_step_ends_with_its_parent(fifo: Path) -> None:
    with loop_with(COUNTS.format(fifo=str(fifo))) as process, fifo.open() as output:
        assert output.readline() == "started\n"
        process.kill()
        assert output.read() == ""  # all writers are gone


def test_a_command_without_json_output_fails_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StepFailedError, match="record failed with exit code 1"):
        run(["record", "--agent", "codex", "--task", TASK, "--json"], wrong=(1,))


@pytest.mark.usefixtures("warm_steps")
def test_a_command_that_prints_something_else_fails_the_step() -> None:
    with pytest.raises(StepFailedError, match=r"printed more than a JSON document: Usage: .*record"):
        run(["record", "--agent", "oracle", "--json", "--help"])


@pytest.mark.usefixtures("warm_steps")
def test_another_agents_run_is_not_resumed(tmp_path: Path) -> None:
    marker = tmp_path / "dev.begun"
    marker.write_text(json.dumps({"before": []}))
    asked = ["--task", TASK, "--jobs", "1"]
    others = run(["record", "--agent", "noop", *asked, "--json"])["run"]
    assert record(marker, ["--agent", "oracle", *asked]) != others


@pytest.mark.usefixtures("warm_steps")
def test_a_steps_own_run_is_resumed(tmp_path: Path) -> None:
    marker = tmp_path / "dev.begun"
    marker.write_text(json.dumps({"before": []}))
    asked = ["--agent", "oracle", "--task", TASK, "--jobs", "1"]
    ours = run(["record", *asked, "--json"])["run"]
    assert record(marker, asked) == ours


def test_the_teacher_gets_its_options(tmp_path: Path) -> None:
    choices = {"benchmark": "saasworld", "train": [TRAINING_TASK], "dev": [TASK], "test": 0, "turns": 1,
               "teacher": "oracle", "teacher_options": ["slips=1"]}  # fmt: skip
    folder, settings = begin("tiny-cpu", (), tmp_path / "loop", choices)
    taught = Steps(folder, settings).teach(1)["run"]
    with RunReader(runs_dir() / taught) as reader:
        (episode,) = reader.episodes()
    assert episode.strict
    assert episode.failed_calls == episode.calls / 2 > 0  # a slip before each call


def test_an_attempt_worse_than_the_teachers_is_not_learned_from(tmp_path: Path) -> None:
    choices = {"benchmark": "saasworld", "train": [TRAINING_TASK], "dev": [TASK], "test": 0, "turns": 2,
               "teacher": "oracle", "min_partial": 0, "attempts": 3}  # fmt: skip
    folder, settings = begin("tiny-cpu", (), tmp_path / "loop", choices)
    steps = Steps(folder, settings)
    own = ["--agent", "oracle", "--agent-option", "drop=1", "--task", TRAINING_TASK]
    worse = run(["record", *own, "--json"])["run"]
    assert steps.curate(1, [worse])["rows"] == 1  # of the attempts at a task, the best ones are good enough
    assert steps.curate(2, [steps.teach(2)["run"], worse])["rows"] == 1


@pytest.mark.parametrize(
    ("changed", "overrides", "held"),
    [
        ({}, (), True),
        ({}, ("rl.constrain_calls=false",), False),
        ({"constrain_calls": False}, (), False),
        ({"algorithm": "sft"}, (), False),  # recorded from the engine that measures
    ],
)
def test_attempts_are_held_to_schemas_as_measurements_are(
    changed: dict[str, object], overrides: tuple[str, ...], held: bool, tmp_path: Path
) -> None:
    choices = {"benchmark": "saasworld", "train": [TRAINING_TASK], "dev": [TASK], "test": 0, "turns": 2,
               "teacher": "oracle", "algorithm": "grpo", "constrain_calls": True, **changed}  # fmt: skip
    folder, _ = begin("tiny-cpu-grpo", overrides, tmp_path / "loop", choices)
    assert load_recipe(str(folder.recipe))[1].rl.constrain_calls is held


def test_recording_options_reach_a_run_and_its_resumption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(RAY_STAND_IN))
    monkeypatch.setenv("RAY_STAND_IN", "a,b")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("MCP_BENCH_ISOLATION", "none")
    choices = {"benchmark": "saasworld", "train": [TRAINING_TASK], "dev": [TASK], "test": 0, "turns": 1,
               "teacher": "oracle", "record_options": ["--ray", "--timeout", "300"]}  # fmt: skip
    steps = Steps(*begin("tiny-cpu", (), tmp_path / "loop", choices))
    taught = steps.teach(1)["run"]
    err = capfd.readouterr().err
    assert "--ray --timeout 300" in err and "nodes: " in err
    (steps.folder.turn(1) / "teach.begun").write_text(json.dumps({"before": []}))
    assert steps.teach(1)["run"] == taught
    assert f"$ mcp-bench record --resume {taught} --jobs 2 --ray --json" in capfd.readouterr().err


def test_a_command_that_resumes_can_be_pasted(tmp_path: Path) -> None:
    choices = {"benchmark": "saasworld", "train": [TRAINING_TASK], "dev": [TASK], "test": 0, "turns": 1}
    folder, _ = begin("tiny-cpu", (), tmp_path / "my loop", choices)
    with pytest.raises(WrongUseError, match=f"mcp-bench loop --resume '{tmp_path}/my loop'$"):
        folder.history()


@pytest.mark.parametrize(
    ("error", "advised"), [(FruitlessStepError("nothing to export"), False), (BenchError("killed"), True)]
)
def test_only_a_loop_that_can_go_on_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BenchError, advised: bool
) -> None:
    choices = {"benchmark": "saasworld", "train": [TRAINING_TASK], "dev": [TASK], "test": 0, "turns": 1}
    begin("tiny-cpu", (), tmp_path, choices)

    def ends(*_: object) -> None:
        raise error

    monkeypatch.setattr("mcp_bench.trainer.loop.turns.run_loop", ends)
    ended = CliRunner().invoke(loop, ["--resume", str(tmp_path)])
    assert ended.exception is error
    assert (f"Resume with: mcp-bench loop --resume {tmp_path}" in ended.output) == advised


@pytest.mark.parametrize("written", ["--user-base-url {}", "--user-base-url={}"])
def test_a_resumed_step_still_has_the_login_of_a_role(
    written: str, tmp_path: Path, bench_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run stores none, and its options are not given again."""
    monkeypatch.setenv("MCP_BENCH_USER_BASE_URL", "")
    url = "http://me:se=cret@127.0.0.1/v1"
    record(
        tmp_path / "begun",
        ["--agent", "oracle", *written.format(url).split()],
        run_command=lambda *_, **__: {"run": "run_1", "stopped": False},
    )
    assert os.environ["MCP_BENCH_USER_BASE_URL"] == url


def test_a_step_is_shown_without_logins(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(commands, "MODULE", ("-c", "pass"))
    url = "http://me:secret@127.0.0.1/v1?key=secret"
    run(["record", "--base-url", url, "--user-base-url", url, f"--judge-base-url={url}", "--seed", "1"])
    assert capfd.readouterr().err.startswith(
        "$ mcp-bench record --base-url http://127.0.0.1/v1 --user-base-url http://127.0.0.1/v1 "
        "--judge-base-url=http://127.0.0.1/v1 --seed 1\n"
    )


@pytest.mark.parametrize(
    ("begun", "says"), [(True, "the training diverged"), (False, "too little to learn from")]
)
def test_a_training_without_a_result_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bool, says: str
) -> None:
    """Rows are counted in data.json before the first step."""
    out = tmp_path / "out"

    def fruitless(*_: object, **__: object) -> None:
        out.mkdir()
        if begun:
            (out / "data.json").touch()
        raise FruitlessStepError

    monkeypatch.setattr(training, "run", fruitless)
    with pytest.raises(training.NothingTrainedError, match=says):
        training.train_model(Path("tiny-cpu"), tmp_path / "rows", out, [])


def test_a_line_that_a_kill_tore_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "run", lambda *_, **__: None)
    step = {"loss": 2.0, "tokens": 5, "reward": 0.5, "episodes": 4}
    (tmp_path / "metrics.jsonl").write_text(f'{json.dumps(step)}\n{{"loss": 1.')
    (tmp_path / "data.json").write_text('{"rows": 3, "too_long": []}')
    done = training.train_model(Path("tiny-cpu"), tmp_path / "rows", tmp_path, [])
    assert (done["steps"], done["first_loss"], done["tokens"]) == (1, 2.0, 5)
    assert training.rl_figures(tmp_path)["episodes"] == 4


@pytest.mark.parametrize(("codes", "kind"), [((0, 3), FruitlessStepError), ((1, 0), StepFailedError)])
def test_one_of_several_processes_can_find_a_step_fruitless(
    codes: tuple[int, int], kind: type[StepFailedError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchrun alone exits with 1. Here, the second process meets the loss that is not finite."""
    (tmp_path / "ends.py").write_text(f"import os, sys; sys.exit({codes}[int(os.environ['RANK'])])")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(commands, "MODULE", ("-m", "ends"))
    with pytest.raises(StepFailedError) as failed:
        run(["train", "sft"], launcher=launcher(load_recipe("tiny-cpu", ["hardware.devices=2"])[1]))
    assert type(failed.value) is kind


@pytest.mark.parametrize("again", [False, True])
def test_invalid_episodes_are_no_verdict_on_what_reward_teaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """Of several processes, torchrun exits with 1 in either case. A resumed run attempts them again."""
    out = tmp_path / "out"

    def stopped(*_: object, **__: object) -> None:
        out.mkdir()
        RLFolder(out).stop(2, "step 2: why", again=again)
        raise StepFailedError

    monkeypatch.setattr(training, "run", stopped)
    asked = (Path("tiny-cpu"), tmp_path / "start", tmp_path / "ids.txt", out)
    if again:
        with pytest.raises(StepFailedError):
            training.learn_online(*asked, [])
    else:
        found = training.learn_online(*asked, [])
        assert (found["model"], found["why"]) == (None, "a guard stopped it: step 2: why")

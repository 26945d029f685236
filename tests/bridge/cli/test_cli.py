"""The root command: fast, lazy, and helpful when it is misused."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mcp_bench.bridge.cli.help.short_help import SHORT_HELP
from mcp_bench.bridge.cli.root import SECTIONS, root
from mcp_bench.servers.extras import TRAINER, TRAINER_COMMANDS, install_trainer
from mcp_bench.servers.registry import load, registered
from tests.support import ROOT
from tests.support.machines.doctor_machine import program
from tests.support.machines.plain_install import hide

pytestmark = pytest.mark.system

HEAVY = ("mcp", "torch", "pydantic", "sqlite_utils", "rich", "openai", "anthropic", "logging", "secrets",
         "importlib.metadata", "pathlib")  # fmt: skip


def test_help_imports_nothing_heavy() -> None:
    probe = (
        "import sys; from mcp_bench.bridge.cli.root import root; root(['--help'], standalone_mode=False);"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done
    assert "record" in done.stdout


def test_commands_read_their_settings_without_pydantic() -> None:
    """Options are fields of settings that pydantic checks later: help and completion do not wait for it."""
    probe = (
        "import sys; import mcp_bench.bridge.cli.record; from mcp_bench.trainer.cli import ablate, improve, loop;"
        "print([name for name in ('pydantic', 'annotated_types') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", probe], text=True, timeout=60).strip() == "[]"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written_is_one_line(bench, unbuffered: str) -> None:
    environ = {**bench.environment(), "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            bench.command("agents", "--json"), stdout=full, stderr=subprocess.PIPE, env=environ, text=True
        )
    assert (done.returncode, done.stderr) == (
        1, "Error: cannot write the output: No space left on device\n",
    )  # fmt: skip


def test_an_uncaught_error_cannot_control_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)  # restored at the end
    assert CliRunner().invoke(root, ["tasks", "--help"]).exit_code == 0
    sys.excepthook(ValueError, ValueError("\x1b[2Jgone"), None)
    assert capsys.readouterr().err.splitlines() == [r"ValueError: \x1b[2Jgone"]


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (["recrod"], "did you mean record"),
        (["record"], "--agent"),
        (["record", "--agent", "oracel"], "did you mean oracle"),
        (["record", "--agent", "noop", "--benchmark", "notebok"], "did you mean notebook"),
        (["record", "--agent", "noop", "--benchmark", "notebook", "--split", "trian"], "did you mean train"),
        (
            ["record", "--agent", "noop", "--benchmark", "notebook", "--task", "colour"],
            "did you mean colours",
        ),
        (
            ["record", "--agent", "noop", "--benchmark", "notebook", "--agent-option", "x=1"],
            "agent 'noop' has no option 'x'",
        ),
        (["record", "--agent", "noop", "--benchmark", "notebook", "--agent-option", "x"], "KEY=VALUE"),
        (["record", "--agent", "chat", "--benchmark", "notebook"], "--model"),
        (
            ["record", "--agent", "oracle", "--benchmark", "notebook", "--agent-option", "drop=much"],
            "drop=much",
        ),
        (
            ["record", "--agent", "oracle", "--benchmark", "notebook", "--agent-option", "dorp=1"],
            "did you mean drop",
        ),
        (["record", "--agent", "noop", "--isolation", "lanlock"], "Did you mean 'landlock'?"),
        (["record", "--agent", "noop", "--timeout", "nan"], "'--timeout'"),
        (["record", "--agent", "noop", "--timeout", "inf"], "'--timeout'"),
        (["record", "--agent", "noop", "--base-url", "localhost:8000/v1"], "'--base-url'"),
        (["record", "--agent", "noop", "--base-url", "http://[::1"], "'--base-url'"),
        (["record", "--agent", "noop", "--task", "@none.txt"], "@none.txt: no readable file of ids"),
        (["record", "--resume", "run_1", "--task", "a"], "leave out --task"),
        (["record", "--resume", "run_1", "--agent-option", "a=b"], "leave out --agent-option"),
        (["tasks", "notebok"], "did you mean notebook"),
    ],
)
def test_wrong_use_gets_a_suggestion(bench, args: list[str], hint: str) -> None:
    done = bench.run(*args, code=2)
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
    assert not (bench.home / "runs").exists()


def test_ids_of_tasks_are_read_from_a_file(bench, tmp_path: Path) -> None:
    listed = tmp_path / "ids.txt"
    listed.write_text("numbers\n\ncolours\n")
    words = ("record", "--agent", "noop", "--benchmark", "notebook", "--task")
    done = bench.run(*words, f"@{listed}")
    found = re.findall(r"\[./2\] (\S+)", done.stdout + done.stderr)
    assert sorted(found) == ["colours", "numbers"]
    listed.write_text("\n")
    assert "the file has no ids" in bench.run(*words, f"@{listed}", code=2).stderr


def test_a_missing_agent_says_how_to_install_it(bench) -> None:
    bench.environ["PATH"] = "/usr/bin:/bin"
    done = bench.run("record", "--agent", "codex", "--benchmark", "notebook", code=1)
    assert "npm install -g @openai/codex" in done.stderr


def test_an_unwritable_home_is_a_clear_error(bench) -> None:
    bench.home.write_text("a file where the folder should be")
    done = bench.run("record", "--agent", "noop", "--benchmark", "notebook", code=1)
    assert str(bench.home) in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_reference_is_up_to_date() -> None:
    # in a process of its own: click keeps the help option of the first context in which a command is used
    made = subprocess.run(
        [sys.executable, "-m", "mcp_bench.bridge.cli.help.reference"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ROOT / "docs" / "reference" / "cli.md").read_text() == made.stdout, "run `make docs`"


def test_the_help_of_each_command_has_an_example() -> None:
    _, *sections = (ROOT / "docs" / "reference" / "cli.md").read_text().split("\n## ")
    assert [section.splitlines()[0] for section in sections if "\n  Examples" not in section] == []


def test_the_lines_of_help_are_up_to_date() -> None:
    """`--help` shows them without importing the commands."""
    module = "mcp_bench.bridge.cli.help.reference"
    made = subprocess.run(
        [sys.executable, "-m", module, "--short-help"], capture_output=True, text=True, check=True
    )
    assert (ROOT / "bridge/mcp_bench/bridge/cli/help/short_help.py").read_text() == made.stdout, (
        "run `make docs`"
    )


def test_help_shows_every_command_in_one_line_below_a_title() -> None:
    shown = CliRunner().invoke(root, ["--help"], terminal_width=80).output
    own = sorted(name for name, point in registered("command").items() if point.value in SHORT_HELP)
    assert sorted(" ".join(SECTIONS.values()).split()) == own
    for name in own:
        text = SHORT_HELP[registered("command")[name].value]
        assert not text.endswith("..."), f"{name}: shorten the first sentence"
        assert re.search(rf"^  {name} +{re.escape(text)}$", shown, re.MULTILINE)


@pytest.mark.parametrize("name", ["record", "export", "improve", "loop"])
def test_the_sections_of_a_large_command_name_all_its_options(name: str) -> None:
    shown = CliRunner().invoke(root, [name, "--help"], terminal_width=80).output
    listed = re.findall(r"^  (?:-h, )?--([a-z-]+)", shown, re.MULTILINE)
    options = [option for option in load("command", name).params if isinstance(option, click.Option)]
    assert sorted(listed) == sorted({option.opts[-1].removeprefix("--") for option in options} | {"help"})
    other = shown.split("\nOther:\n")[1].split("\n\n")[0]
    assert re.findall("--([a-z-]+)", other) == ["help"]


def test_without_the_trainer_its_commands_say_how_to_install_it(bench, tmp_path: Path) -> None:
    hide(bench, tmp_path / "hidden", {TRAINER})
    for line in ("train sft recipe --data x", "loop --help", "ablate", "serve-model x"):
        done = bench.run(*line.split(), code=1)
        needs = f"Error: '{line.split()[0]}' needs {TRAINER}. Install it: {install_trainer()}"
        assert done.stderr.startswith(needs), done.stderr
    assert "did you mean train?" in bench.run("trian", code=2).stderr


def test_the_trainers_commands_are_known() -> None:
    project = tomllib.loads((ROOT / "trainer" / "pyproject.toml").read_text())["project"]
    assert set(TRAINER_COMMANDS) == set(project["entry-points"]["mcp_bench.commands"])
    assert project["name"] == TRAINER


def test_sigterm_while_an_agent_is_asked_for_its_version(bench, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"(setsid sh -c 'echo started; sleep 600' > {fifo} &) ; sleep 600"
    agent = program(tmp_path, "slow-agent", script)
    command = ("record", "--agent", "acp", "--agent-command", f"{agent} acp", "--benchmark", "notebook")
    for number in (signal.SIGTERM, signal.SIGINT):
        with bench.start(*command) as process, fifo.open() as output:
            assert output.readline() == "started\n"
            assert process.stderr is not None
            assert process.stderr.readline() == f"asking `{agent} acp` for its version ...\n"
            process.send_signal(number)
            assert output.read() == ""  # all its processes are gone
            process.communicate(timeout=120)
        assert process.returncode != 0
    assert not (bench.home / "runs").exists()


@pytest.mark.parametrize("words", ["doctor noop --timeout nan", "layers --remove --unused-for nan"])
@pytest.mark.usefixtures("bench_home")
def test_nan_is_no_time(words: str) -> None:
    """It passes every range: each check of doctor had no answer within nan seconds."""
    result = CliRunner().invoke(root, words.split())
    assert result.exit_code == 2
    assert "nan is not a finite number" in result.output

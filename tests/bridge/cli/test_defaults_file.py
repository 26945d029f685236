"""Defaults from files: who wins, what a project's file may not set, and what hostile files do."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from mcp_bench.bridge.cli.root import root
from mcp_bench.bridge.cli.settings.defaults import PROJECT_OPTIONS
from mcp_bench.bridge.interactive.control import environment
from mcp_bench.bridge.interactive.paths import RefereePaths
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.trial import commands
from tests.support.bench_commands import Bench

pytestmark = pytest.mark.system

REFUSED = "is refused in a project's file"
Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def here(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work where `bench` runs commands, and restore what the root command changes in this process."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    monkeypatch.setenv("HOME", str(bench.home.parent))
    for name in ("XDG_CONFIG_HOME", "MCP_BENCH_CONFIG", "MCP_BENCH_RETRIES", "MCP_BENCH_ISOLATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(bench.home.parent)
    return bench.home.parent


@pytest.fixture
def project(here: Path) -> Write:
    """Write the file of the project."""

    def write(text: str) -> Path:
        file = here / "mcp-bench.toml"
        file.write_text(text)
        return file

    return write


@pytest.fixture
def own(here: Path) -> Write:
    """Write the user's own file."""

    def write(text: str) -> Path:
        file = here / ".config" / "mcp-bench" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text(text)
        return file

    return write


def shown(*words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(CliRunner().invoke(root, ["config", *words, "--json"]).stdout)
    return document


def refusal(*args: str) -> str:
    """Return the error of a command that must not start."""
    error = CliRunner().invoke(root, args).exception
    assert isinstance(error, WrongUseError), error
    return str(error)


def test_record_takes_defaults_and_says_from_where(bench, project) -> None:
    file = project('[record]\nagent = "noop"\nbenchmark = "notebook"\nlimit = 2\n')
    done = bench.run("record", "--limit", "1", "--repeat", "2")
    assert f"From {file}: agent noop, benchmark notebook\n" in done.stderr
    assert [row["repeat"] for row in bench.rows("select repeat from episodes order by id")] == [0, 1]
    assert len(bench.grades()) == 2


def test_the_command_line_wins_over_environment_and_files(project, own, monkeypatch) -> None:
    mine = own("[record]\nretries = 7\njobs = 3\nseed = 5\nmax-cost = 2.5\n")
    theirs = project("[record]\nretries = 6\njobs = 4\n")
    monkeypatch.setenv("MCP_BENCH_RETRIES", "1")
    found = shown("record")
    assert [file["path"] for file in found["files"]] == [str(mine), str(theirs)]
    of = {row["option"]: (row["value"], row["source"], row["origin"]) for row in found["settings"]}
    assert of["retries"] == (1, "environment", "$MCP_BENCH_RETRIES")
    assert of["jobs"] == (4, "file", str(theirs))
    assert of["seed"] == (5, "file", str(mine))
    assert of["max-cost"] == (2.5, "file", str(mine))
    assert of["timeout"] == (900.0, "default", "")


def test_config_prints_what_files_and_environment_change(project, monkeypatch) -> None:
    file = project('[report]\nby = "agent"\n')
    monkeypatch.setenv("MCP_BENCH_RETRIES", "1")
    lines = CliRunner().invoke(root, ["config"]).stdout.splitlines()
    assert lines[:2] == ["Files, the strongest last:", f"  {file} (project)"]
    assert ["by", "agent", str(file)] in [line.split() for line in lines]
    assert ["retries", "1", "$MCP_BENCH_RETRIES"] in [line.split() for line in lines]


def test_a_token_is_not_printed(own) -> None:
    own('[serve]\ntoken = "very-secret-token-of-mine"\n')
    for args in (["config"], ["config", "serve", "--json"]):
        done = CliRunner().invoke(root, args)
        assert done.exit_code == 0
        assert "token" in done.output
        assert "very-secret" not in done.output


def test_the_nearest_file_up_to_the_repository_wins(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here / "home"))
    repository = here / "somewhere" / "repository"
    deep = repository / "a" / "b"
    deep.mkdir(parents=True)
    (repository / ".git").mkdir()
    (here / "somewhere" / "mcp-bench.toml").write_text("[record]\njobs = 9\n")
    monkeypatch.chdir(deep)
    assert shown()["files"] == []
    (repository / "pyproject.toml").write_text("[tool.mcp-bench.record]\njobs = 2\n")
    assert [file["path"] for file in shown()["files"]] == [str(repository / "pyproject.toml")]
    (repository / "a" / "mcp-bench.toml").write_text("[record]\nseed = 2\n")
    found = shown()
    assert [file["path"] for file in found["files"]] == [str(repository / "a" / "mcp-bench.toml")]
    changed = [row for row in found["settings"] if row["source"] == "file"]
    assert [(row["option"], row["value"]) for row in changed] == [("seed", 2)]


def test_outside_a_repository_only_the_folder_itself_counts(here: Path, monkeypatch) -> None:
    """A file in a folder like /tmp, which everybody can write to, must not reach what is below it."""
    monkeypatch.setenv("HOME", str(here / "home"))
    below = here / "shared" / "below"
    below.mkdir(parents=True)
    (here / "shared" / "mcp-bench.toml").write_text("[record]\njobs = 9\n")
    monkeypatch.chdir(below)
    assert shown()["files"] == []
    monkeypatch.chdir(below.parent)
    assert len(shown()["files"]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "# was [tool.mcp-bench.record]\n",
        "[tool.mcp-bench-kit]\nx = 1\n",
        'x = "[tool.mcp-bench]"\ntool = 1\n',
    ],
)
def test_a_file_of_another_project_is_no_ones_business(here: Path, text: str) -> None:
    (here / "pyproject.toml").write_text(text)
    found = shown()
    assert (found["files"], found["problems"]) == ([], [])


def test_the_table_of_a_shared_file_is_a_table(here: Path) -> None:
    (here / "pyproject.toml").write_text("[[tool.mcp-bench]]\nrecord = {}\n")
    error = refusal("status")
    assert str(here / "pyproject.toml") in error and "should be a table" in error


def test_places_that_cannot_be_searched_have_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a closed folder, or a user without a home."""
    monkeypatch.setenv("XDG_CONFIG_HOME", f"/{'x' * 300}")
    assert shown()["files"] == []
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "~")
    assert shown()["files"] == []
    monkeypatch.setenv("MCP_BENCH_CONFIG", "~/mine.toml")
    assert "MCP_BENCH_CONFIG=~/mine.toml" in refusal("status")


def test_config_shows_a_nested_command(own) -> None:
    file = own('[train.sft]\ntokenizer = "mine"\n')
    rows = {row["option"]: (row["value"], row["origin"]) for row in shown("train", "sft")["settings"]}
    assert rows["tokenizer"] == ("mine", str(file))


def test_the_model_of_the_file_that_names_the_agent_stays(own, project) -> None:
    """In any order of its lines."""
    own('[record]\nagent = "claude-code"\nmodel = "opus"\n')
    project('[record]\nmodel = "gpt-x"\nagent = "codex"\n')
    rows = {row["option"]: row["value"] for row in shown("record")["settings"]}
    assert (rows["agent"], rows["model"]) == ("codex", "gpt-x")


def test_a_variable_names_another_file_or_none(project, here: Path, monkeypatch) -> None:
    project("[record]\njobs = 4\n")
    other = here / "other.toml"
    other.write_text('[record]\ntools = "all"\n')  # it is the user's choice
    monkeypatch.setenv("MCP_BENCH_CONFIG", str(other))
    assert shown()["files"] == [{"path": str(other), "kind": "user"}]
    assert shown()["problems"] == []
    monkeypatch.setenv("MCP_BENCH_CONFIG", "none")
    assert shown()["files"] == []
    monkeypatch.setenv("MCP_BENCH_CONFIG", "missing.toml")
    assert "missing.toml: No such file" in refusal("record", "--agent", "noop")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[record]\njbos = 2\n", "[record] jbos is not an option of `mcp-bench record` (did you mean jobs"),
        ("[recrod]\njobs = 2\n", "[recrod] is not a command (did you mean record"),
        ('agent = "noop"\n', "agent is outside of a table"),
        ('record = "noop"\n', "record is outside of a table"),
        ('[record]\njobs = "two"\n', '[record] jobs is "two", and should be a whole number'),
        ('[record]\njobs = "2"\n', '[record] jobs is "2", and should be a whole number'),
        ("[record]\njobs = true\n", "[record] jobs is true, and should be a whole number"),
        ("[record]\njobs = 0\n", "[record] jobs is 0: 0 is not in the range x>=1"),
        ("[record]\ntimeout = nan\n", "[record] timeout is nan: nan is not"),
        ('[record]\ntask = "colours"\n', '[record] task is "colours", and should be a list'),
        ("[record]\nmodel = []\n", "[record] model is [], and should be a string"),
        ('[record]\nresume = "run_1"\n', "resume is no default, because --resume asks"),
        ("[record]\nconfig-schema = true\n", "config-schema is no default, because --config-schema asks"),
        ('[record]\nserver = "sh -c id"\n', "server is no default, because --server asks"),
        ("[record\n", "is not valid TOML"),
        ('[record]\nmodel = "--dangerously-skip-permissions"\n', "could read the dash"),
    ],
)
def test_a_wrong_file_is_named_with_the_key(project, text: str, message: str) -> None:
    file = project(text)
    error = refusal("record", "--agent", "noop", "--benchmark", "notebook")
    assert str(file) in error
    assert message in error
    listed = CliRunner().invoke(root, ["config"])
    assert listed.exit_code == 1
    assert message in listed.stderr + str(listed.exception)


def test_other_commands_work_beside_a_wrong_table(project) -> None:
    """A colleague may have a package that this machine lacks."""
    project("[record]\njbos = 2\n[their-own-thing]\nx = 1\n")
    assert CliRunner().invoke(root, ["tasks", "--help"]).exit_code == 0
    assert "[their-own-thing] is not a command" in shown()["problems"][1]


@pytest.mark.parametrize(
    "line",
    [
        "agent-command = \"sh -c 'touch owned'\"",
        'agent_command = "sh"',
        'agent-option = ["command=sh"]',
        'benchmark = "improve:./task"',
        'task = ["one", "@/proc/self/environ"]',
        'base-url = "http://evil.example/v1"',
        'home = "native"',
        'tools = "all"',
        'isolation = "none"',
        'require-isolation = "landlock"',
        "max-cost = 1000000",
        "capture-llm = true",
        'agent-limit = ["processes=1000000"]',
        'durability = "normal"',
        "json = true",
    ],
)
def test_a_repository_cannot_set_what_is_the_users(project, here: Path, line: str) -> None:
    project(f"[record]\n{line}\n")
    error = refusal("record", "--agent", "noop", "--benchmark", "notebook")
    assert REFUSED in error
    assert str(here / ".config/mcp-bench/config.toml") in error


def test_a_refused_file_starts_nothing(bench, project, here: Path) -> None:
    project('[record]\nagent = "acp"\nagent-command = "sh -c \'touch owned\'"\n')
    done = bench.run("record", code=2)
    assert REFUSED in done.stderr
    assert "Traceback" not in done.stderr
    assert not (bench.home / "runs").exists()
    assert not (here / "owned").exists()


@pytest.mark.parametrize("command", ["connect", "experience", "serve", "proxy"])
def test_agents_cannot_choose_their_tasks_by_a_file(project, command: str) -> None:
    """An agent's own configuration starts these commands in a folder that the agent can write to."""
    project(f"[{command}]\nsplit = 'train'\n")
    assert REFUSED in refusal(command, "notebook")


def test_what_a_project_may_set_names_no_file_or_program() -> None:
    """Whoever adds an option to the list, or an option with a name that is on it, sees this."""
    seen: set[str] = set()

    def look(command: click.Command, above: click.Context | None) -> None:
        context = click.Context(command, info_name=command.name, parent=above)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                child = command.get_command(context, name)
                assert child is not None
                look(child, context)
        for option in command.params:
            long = option.opts[-1].removeprefix("--")
            if isinstance(option, click.Option) and long in PROJECT_OPTIONS:
                seen.add(long)
                assert not isinstance(option.type, click.Path | click.File), (command.name, long)
                kind = str(option.metavar).upper()
                assert not any(word in kind for word in ("FILE", "FOLDER", "CMD", "URL", "PATH")), (
                    long,
                    kind,
                )

    look(root, None)
    assert seen == PROJECT_OPTIONS


@pytest.mark.parametrize("kind", ["fifo", "large", "deep", "binary", "link", "folder"])
def test_a_hostile_file_ends_in_a_sentence(here: Path, kind: str) -> None:
    file = here / "mcp-bench.toml"
    secret = here / "secret"
    secret.write_text("password-of-somebody\n")
    match kind:
        case "fifo":
            os.mkfifo(file)
        case "large":
            file.write_bytes(b"#" * (2 << 20))
        case "deep":
            file.write_text("a = " + "[" * 100_000)
        case "binary":
            file.write_bytes(b"\xff\xfe[record]\x00")
        case "link":
            file.symlink_to(secret)
        case "folder":
            file.mkdir()
    if kind in ("fifo", "folder"):  # not a file
        assert shown()["files"] == []
    else:
        error = refusal("status")
        assert str(file) in error
        assert "password" not in error


def test_names_in_a_file_cannot_control_the_terminal(bench, project) -> None:
    project('[record]\n"\\u001b[2Jx" = 1\nagent = "\\u001b]0;x\\u0007"\n')
    for args in (["record"], ["config", "record"]):
        done = bench.run(*args, code=None)
        assert "\x1b" not in done.stdout + done.stderr
        assert "\x07" not in done.stdout + done.stderr


def test_resume_does_not_count_a_file_as_given(bench, project, own) -> None:
    run = json.loads(bench.run("record", "--agent", "noop", "--benchmark", "notebook", "--json").stdout)[
        "run"
    ]
    project('[record]\nagent = "noop"\nbenchmark = "notebook"\nlimit = 1\ntag = ["x"]\n')
    own("[record]\nmax-cost = 5\n")  # refused for noop, which reports no cost
    assert "leave out --limit" in bench.run("record", "--resume", run, "--limit", "1", code=2).stderr
    bench.run("record", "--resume", run)


def test_another_agent_or_benchmark_takes_nothing_of_the_first(bench, own, project) -> None:
    own(
        '[record]\nagent = "acp"\nagent-command = "some agent"\nmodel = "m"\n'
        'base-url = "http://127.0.0.1:1/v1"\nagent-option = ["x=y"]\n'
    )
    done = bench.run("record", "--agent", "noop", "--benchmark", "notebok", code=2)
    assert "did you mean notebook" in done.stderr  # and not: noop has no option x
    project('[record]\nagent = "noop"\nbenchmark = "notebook"\nlimit = 1\n')
    bench.run("record")
    project('[record]\nagent = "acp"\nmodel = "m"\nlimit = 1\n')
    said = bench.run("record", "--agent", "noop", "--benchmark", "notebok", code=2).stderr
    assert ("limit 1" in said, "model m" in said) == (True, False)
    assert bench.rows("select agent, model from runs") == [{"agent": "noop", "model": None}]
    bench.environ["MCP_BENCH_CONFIG"] = str(project('[record]\nbenchmark = "harbor"\npath = "tasks"\n'))
    bench.run("record", "--agent", "noop", "--benchmark", "notebook", "--limit", "1")  # no folder fits it


def test_an_agent_sees_no_file_and_no_variable(bench, project, script, here: Path) -> None:
    seen = here / "seen"
    bench.environ["MCP_BENCH_CONFIG"] = str(project("[record]\nlimit = 1\n"))
    agent = script(f"json.dump([dict(os.environ), os.listdir()], open({str(seen)!r}, 'w'))")
    bench.run("record", "--agent", "script", "--agent-option", agent, "--benchmark", "notebook", code=None)
    environ, folder = json.loads(seen.read_text())
    assert "MCP_BENCH_CONFIG" not in environ
    assert "mcp-bench.toml" not in folder


def test_steps_of_a_loop_read_no_file(project) -> None:
    project("[record]\njobs = 4\n")
    assert commands.run(["config", "--json"])["files"] == []


def test_a_referee_in_the_background_reads_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_BENCH_CONFIG", "mine.toml")
    assert environment(RefereePaths(), None)["MCP_BENCH_CONFIG"] == "none"


def test_looking_for_files_imports_nothing(here: Path) -> None:
    probe = (
        "import sys; from mcp_bench.bridge.cli.root import root; root(['delete', '--help'], standalone_mode=False);"
        "print([name for name in ('tomllib', 'tomlkit', 'pydantic', 'platformdirs') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=here, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done

"""The parameters of the Python API: they are the command's options, and are checked as those are."""

import inspect
from typing import Any

import click
import pytest

import mcp_bench.api
from mcp_bench.api import (
    BenchError,
    UnknownNameError,
    WrongUseError,
    record,
    record_async,
    resume,
    resume_async,
)
from mcp_bench.bridge.cli.record import record as command
from mcp_bench.bridge.run.choices import Choices
from mcp_bench.bridge.run.choices import default as choices_default

pytestmark = pytest.mark.unit

NO_PARAMETER = {"path", "prompt_files", "resume", "config", "config_schema", "dry_run", "as_json"}
"""Options of the command that are functions, types, results or a part of a name here."""
RENAMED = {"home": "agent_home", "options": "agent_options"}
OF_PYTHON = {"on_event", "progress", "home", "env"}
FROM_ENVIRONMENT = {"retries", "isolation", "sandbox"}
"""None: the variable that the command reads, else its default."""


def options() -> dict[str, click.Parameter]:
    return {
        RENAMED.get(option.name or "", option.name or ""): option
        for option in command.params
        if option.name not in NO_PARAMETER
    }


def default_of(option: click.Parameter) -> set[str]:
    """Return how a parameter can have the default of an option: 0 is not False, and nothing has two forms."""
    if isinstance(option, click.Option) and option.multiple:
        return {"()", "None"}
    return {repr(option.to_info_dict()["default"])}


def test_every_option_of_the_command_is_a_parameter() -> None:
    parameters = inspect.signature(record).parameters
    assert set(parameters) - OF_PYTHON == set(options())
    for name, option in options().items():
        default = parameters[name].default
        if name in FROM_ENVIRONMENT:
            assert default is None and option.envvar
        elif name != "agent":
            assert repr(default) in default_of(option), name


def test_choices_have_the_defaults_of_the_command() -> None:
    for name, option in options().items():
        if name not in (
            "agent",
            "jobs",
            "referees",
            "ray",
            "address",
            "agent_command",
        ):  # of the run's process, and another spelling
            field = {own: here for here, own in RENAMED.items()}.get(name, name)
            assert repr(choices_default(field)) in default_of(option), name


def test_the_asynchronous_twins_have_the_same_parameters() -> None:
    for one, twin in ((record, record_async), (resume, resume_async)):
        assert inspect.signature(one) == inspect.signature(twin)


def test_every_parameter_is_documented() -> None:
    for function in (record, resume):
        for name in inspect.signature(function).parameters:
            assert f"    {name}: " in (function.__doc__ or ""), name


def test_all_that_is_public_exists_and_has_a_docstring() -> None:
    for name in mcp_bench.api.__all__:
        found = getattr(mcp_bench.api, name)
        assert not callable(found) or inspect.getdoc(found), name


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"limit": 0}, "limit is 0: it should be greater than or equal to 1"),
        ({"limit": "3"}, "limit is '3': it should be a valid integer"),
        ({"repeat": True}, "repeat is True"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"timeout": 0}, "timeout is 0"),
        ({"tools": "some"}, "tools is 'some': it should be 'mcp-only' or 'all'"),
        ({"agent_home": "none"}, "agent_home is 'none'"),
        ({"tasks": [1]}, "tasks.0 is 1"),
        ({"agent_options": {"a": 1}}, "agent_options.a is 1"),
        ({"base_url": "localhost:8000"}, "'localhost:8000' is not an http:// or https:// URL"),
        ({"isolation": "landlok"}, "unknown level of isolation 'landlok' (did you mean landlock?)"),
        ({"sandbox": "podmn"}, "unknown sandbox engine 'podmn' (did you mean podman?)"),
        ({"require_isolation": "none"}, "unknown level of require_isolation 'none'"),
        ({"agent_limits": {"cpus": 1}}, "unknown limit of an agent 'cpus'"),
        ({"agent_limits": {"files": 0}}, "agent_limits.files is 0"),
        ({"prompts": "Hello."}, "prompts needs server"),
        ({"server": "echo", "split": "dev"}, "split does not go with server"),
        ({"seed": 2**63}, "seed is 9223372036854775808: it should be a number of 64 bits"),
        ({"server": "echo", "tasks": ["a"]}, "tasks does not go with server"),
        ({"jobs": 0}, "jobs is 0: it should be greater than or equal to 1"),
        ({"referees": 0}, "referees is 0: it should be greater than or equal to 1, or should be 'auto'"),
        (
            {"role_limits": {"cost": -1}},
            "role_limits.cost is -1: it should be greater than or equal to 1, or should be greater than 0",
        ),
        ({"env": {"MCP_BENCH_RETRIES": "many"}}, "$MCP_BENCH_RETRIES is 'many'"),
        ({"agent": ""}, "name an agent"),
    ],
)
def test_wrong_values_are_refused_before_anything_starts(given: dict[str, Any], text: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        record(**{"agent": "oracle", **given})
    assert text in str(refused.value)


def test_a_near_match_of_a_level_is_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError):
        record("oracle", isolation="uids")
    with pytest.raises(BenchError, match="max_cost is 0"):
        resume("run_1", max_cost=0)
    with pytest.raises(WrongUseError, match="note is 3"):
        resume("run_1", note=3)  # type: ignore[arg-type]


def test_lists_of_a_server_run_may_be_empty() -> None:
    assert Choices(agent="codex", server="echo", prompts=["Hello."], tasks=[], tags=[]).server == "echo"

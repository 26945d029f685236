"""`record` finds an endpoint that cannot work before the first episode, and says so when a model never answers."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.http.model_api import ModelApi, listed, refused
from tests.support.machines.doctor_machine import program
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import Script, ScriptedCall, Step

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
LIST, CHAT = "GET /v1/models", "POST /v1/chat/completions"
RECORD = ("record", "--benchmark", "notebook", "--task", "colours", "--model", "model")
STEPS = (Step((ScriptedCall("write", {"key": "sky", "value": "cerulean-sentinel"}),)), Step(text="Done."))


@pytest.fixture
def nowhere() -> Iterator[str]:
    """A URL where nothing listens."""
    with closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}/v1"


@pytest.fixture
def api() -> Iterator[ModelApi]:
    wrong = refused(401, "Incorrect API key")
    with ModelApi({LIST: wrong, CHAT: wrong, "POST /v1/responses": wrong}) as running:
        yield running


@pytest.fixture
def codex(bench, tmp_path):
    """A program that would pass for Codex, and must never be started for an episode."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program(folder, "codex", '[ "$1" = --version ] && echo 0.169.0')
    program(folder, "codex-acp", '[ "$1" = --version ] && echo 1.2.3')
    bench.environ |= {"PATH": f"{folder}:/usr/bin:/bin", "OPENAI_API_KEY": KEY}


def test_an_endpoint_that_is_down_is_found_first(bench, codex, nowhere: str) -> None:
    for agent in (("chat",), ("chat", "--capture-llm"), ("codex",), ("acp", "--agent-command", "codex-acp")):
        done = bench.run(*RECORD, "--base-url", nowhere, "--agent", *agent, code=1)
        assert f"the model endpoint {nowhere} cannot be reached" in done.stderr, agent
        assert "Nothing was recorded" in done.stderr and "Traceback" not in done.stderr
    bench.environ["OPENAI_BASE_URL"] = nowhere
    assert f"{nowhere} cannot be reached" in bench.run(*RECORD, "--agent", "chat", code=1).stderr
    assert not (bench.home / "runs").exists()


@pytest.mark.parametrize("url", ["http://[bad", "127.0.0.1:8000/v1"])
def test_a_variable_with_a_wrong_url_is_named(bench, url: str) -> None:
    bench.environ["OPENAI_BASE_URL"] = url
    done = bench.run(*RECORD, "--agent", "chat", code=2)
    assert "OPENAI_BASE_URL should be a URL" in done.stderr and "Traceback" not in done.stderr
    assert not (bench.home / "runs").exists()


def test_a_wrong_key_is_a_missing_login(bench, codex, api: ModelApi) -> None:
    for agent in (("chat",), ("codex",), ("codex", "--capture-llm")):
        done = bench.run(*RECORD, "--base-url", f"{api.url}/v1", "--agent", *agent, code=1)
        assert "login_missing: the model endpoint" in done.stderr, agent
        assert "OPENAI_API_KEY" in done.stderr and KEY not in done.stderr
    assert set(api.keys) == {KEY}
    assert not (bench.home / "runs").exists()


def test_an_unknown_model_is_found_first(bench, api: ModelApi) -> None:
    api.answers = {LIST: listed("models-1", "other"), CHAT: refused(404, "The model `model` does not exist.")}
    done = bench.run(*RECORD, "--agent", "chat", "--base-url", f"{api.url}/v1", code=2)
    assert "has no model 'model' (did you mean models-1?)" in done.stderr
    assert not (bench.home / "runs").exists()


def test_a_resumed_run_gets_the_same_look(bench, api: ModelApi) -> None:
    wrong, api.answers = api.answers, {LIST: listed("model"), CHAT: refused(503, "later")}
    once = ("--agent-option", "max_retries=0", "--base-url", f"{api.url}/v1")
    bench.run(*RECORD, "--agent", "chat", *once, code=1)
    run = bench.run_folder.name
    api.answers = wrong
    done = bench.run("record", "--resume", run, code=1)
    assert "login_missing: the model endpoint" in done.stderr
    assert [row["invalid"] for row in bench.rows("select invalid from episodes")] == ["endpoint_error"]
    api.answers = {LIST: listed("model"), CHAT: refused(503, "later")}
    bench.run("record", "--resume", run, code=1)
    assert len(bench.rows("select id from episodes")) == 2


def test_a_finished_run_needs_no_endpoint(bench) -> None:
    scripts = [Script("Fill the page of colours.", STEPS)]
    with ModelEndpoint(scripts) as endpoint:
        bench.run(*RECORD, "--agent", "chat", "--base-url", endpoint.openai_url)
        assert len(endpoint.requests) == 2  # the look asked for no token
    bench.run("record", "--resume", bench.run_folder.name)


@pytest.mark.parametrize(("status", "reason"), [(401, "login_missing"), (500, "endpoint_error")])
def test_a_model_that_never_answers_is_named(bench, status: int, reason: str) -> None:
    """The list of models works: only the requests of the agent fail."""
    with ModelEndpoint([], fault=Fault(status=status)) as endpoint:
        done = bench.run(
            "record", "--benchmark", "notebook", "--model", "model", "--agent", "chat", "--json",
            "--base-url", endpoint.openai_url, "--agent-option", "max_retries=0", code=1,
        )  # fmt: skip
    run = bench.run_folder.name
    assert f"{run}: the model never answered, 0 calls" in done.stderr
    assert json.loads(done.stdout)["model_never_answered"] is True
    stored = bench.rows("select invalid, invalid_detail from episodes order by id")
    assert {row["invalid"] for row in stored} == {reason} and str(status) in stored[0]["invalid_detail"]
    if reason == "login_missing":
        assert len(stored) == 1  # the first ends the run
        assert "Ended early: the first episode was invalid: login_missing" in done.stderr
    assert "chat model notebook: the model never answered" in bench.run("report").stderr
    assert bench.report()[0]["model_never_answered"] is True


def test_a_model_that_answered_once_did_answer(bench) -> None:
    scripts = [Script("Fill the page of colours.", STEPS)]
    with ModelEndpoint(scripts, fault=Fault(status=500, after=2)) as endpoint:
        done = bench.run(
            "record", "--benchmark", "notebook", "--model", "model", "--agent", "chat", "--json", "--capture-llm",
            "--base-url", endpoint.openai_url, "--agent-option", "max_retries=0", code=1,
        )  # fmt: skip
    assert "never answered" not in done.stderr + bench.run("report").stderr
    assert json.loads(done.stdout)["model_never_answered"] is False


def test_an_agent_with_its_own_endpoint_is_left_alone(bench, codex) -> None:
    """Without --base-url, Codex goes where its own configuration says."""
    done = bench.run(*RECORD, "--agent", "codex", "--retries", "0", code=None)
    assert bench.rows("select id from episodes"), done.stderr

"""`record --capture-llm`: with several jobs, with failures, resumed, and with agents that do not support it."""

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_bench.bridge.model_proxy.upstream import upstream
from mcp_bench.bridge.run.agent_setup import load_agent
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.saasworld import BENCHMARK
from tests.support.agents.node_clis import node_environ
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import script_from_reference

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
TASKS = tuple(f"simple-candidate-stage.1.train.{number}" for number in range(4))
Record = Callable[..., Any]


@pytest.fixture(scope="module")
def references() -> dict[str, dict[str, Any]]:
    known = {}
    for task in TASKS:
        found = BENCHMARK.reference(task)
        assert found is not None
        known[task] = {"prompt": BENCHMARK.task(task).prompt, **found.model_dump()}
    return known


@pytest.fixture
def endpoint(references: dict[str, dict[str, Any]]) -> Iterator[ModelEndpoint]:
    scripts = [script_from_reference(one["prompt"], one) for one in references.values()]
    with ModelEndpoint(scripts, api_key=KEY) as running:
        yield running


@pytest.fixture
def record(bench, endpoint: ModelEndpoint) -> Record:
    bench.environ["OPENAI_API_KEY"] = KEY

    def run(*more: str, tasks: tuple[str, ...] = TASKS[:1], code: int = 0):
        chosen = [part for task in tasks for part in ("--task", task)]
        return bench.run(
            "record", "--agent", "chat", "--model", "scripted-1", "--base-url", endpoint.openai_url,
            "--capture-llm", *chosen, *more, code=code,
        )  # fmt: skip

    return run


def test_concurrent_episodes_get_their_own_calls(bench, record: Record, references: dict[str, Any]) -> None:
    record("--jobs", "4", tasks=TASKS)
    episodes = {row["id"]: row["task"] for row in bench.rows("select id, task from episodes")}
    assert set(episodes.values()) == set(TASKS)
    calls = bench.rows("select episode, request from model_calls")
    for call in calls:
        prompt = references[episodes[call["episode"]]]["prompt"]
        assert prompt in json.dumps(json.loads(call["request"]), ensure_ascii=False).replace(
            "\\n", "\n"
        ).replace('\\"', '"')
    counts = Counter(episodes[call["episode"]] for call in calls)
    assert counts == {task: len(references[task]["calls"]) + 1 for task in TASKS}


def test_show_reports_what_was_captured(bench, record: Record, endpoint: ModelEndpoint) -> None:
    record("--agent-option", "temperature=0.25", "--agent-option", "max_tokens=321")
    (episode,) = bench.rows("select id, usage from episodes")
    document = json.loads(bench.run("show", episode["id"], "--json").stdout)
    assert document["captured"]["parameters"] == [{"temperature": 0.25, "max_tokens": 321}]
    assert document["captured"]["turns"] == len(endpoint.requests)
    reported = json.loads(episode["usage"])
    assert document["captured"]["usage"] == reported
    calls = json.loads(bench.run("show", episode["id"], "--model-calls", "--json").stdout)
    assert [call["request"] for call in calls] == [request.body for request in endpoint.requests]


def test_a_retry_of_the_agent_is_a_separate_row(bench, record: Record, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=500, first=1, headers={"retry-after": "0"})
    record()
    rows = bench.rows("select status, outcome, usage, message, request from model_calls order by id")
    assert [(row["status"], row["outcome"]) for row in rows[:2]] == [(500, "error"), (200, "ok")]
    assert rows[0]["request"] == rows[1]["request"]
    assert (rows[0]["usage"], rows[0]["message"]) == (None, None)
    assert rows[1]["message"] == 1
    assert [grade["partial"] for grade in bench.grades()] == [1.0]


def test_a_resumed_run_continues_to_capture(bench, record: Record, endpoint: ModelEndpoint) -> None:
    endpoint.fault = Fault(status=401)
    record("--retries", "0", "--agent-option", "max_retries=0", code=1)
    endpoint.fault = None
    bench.run("record", "--resume", bench.run_folder.name)
    episodes = bench.rows("select id, invalid, invalid_detail from episodes order by id")
    assert [row["invalid"] for row in episodes] == ["login_missing", None]
    by_episode = {
        row["id"]: [
            call["outcome"]
            for call in bench.rows("select outcome from model_calls where episode = ?", row["id"])
        ]
        for row in episodes
    }
    assert list(by_episode.values()) == [["error"], ["ok"] * (len(endpoint.requests) - 1)]


def answer_once(listener: socket.socket) -> None:
    """Answer one request as an endpoint without a list of models, and listen no more before it is over."""
    client, _ = listener.accept()
    listener.close()
    with client:
        client.recv(4096)
        client.sendall(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n")


def test_errors_name_the_endpoint_as_the_user_did(bench, record: Record) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        leaving = threading.Thread(target=answer_once, args=(listener,))
        leaving.start()
        away = f"http://127.0.0.1:{port}/v1"
        record("--base-url", away, "--retries", "0", "--agent-option", "max_retries=0", code=1)
        leaving.join()
    (episode,) = bench.rows("select invalid, invalid_detail from episodes")
    assert episode["invalid"] == "endpoint_error"
    assert f"127.0.0.1:{port}" in episode["invalid_detail"]
    (call,) = bench.rows("select status, outcome from model_calls")
    assert call == {"status": 502, "outcome": "error"}


def test_without_the_option_nothing_is_captured(bench, record: Record, endpoint: ModelEndpoint) -> None:
    bench.run(
        "record", "--agent", "chat", "--model", "scripted-1", "--base-url", endpoint.openai_url,
        "--task", TASKS[0],
    )  # fmt: skip
    assert bench.rows("select * from model_calls") == []


@pytest.mark.parametrize("agent", ["noop", "devin"])
def test_agents_with_a_fixed_or_no_endpoint_are_refused(bench, agent: str) -> None:
    stand_in = bench.home.parent / "bin" / "devin"
    stand_in.parent.mkdir()
    stand_in.write_text("#!/bin/sh\necho 1.0\n")
    stand_in.chmod(0o755)
    bench.environ["PATH"] = f"{stand_in.parent}:/usr/bin:/bin"
    done = bench.run("record", "--agent", agent, "--limit", "1", "--capture-llm", code=2)
    assert "leave out --capture-llm" in done.stderr
    assert not (bench.home / "runs").exists()


def test_a_login_by_subscription_is_refused(bench) -> None:
    environ = node_environ(bench.home.parent)
    bench.environ.update(PATH=environ["PATH"], CLAUDE_CODE_OAUTH_TOKEN=KEY)
    done = bench.run("record", "--agent", "claude-code", "--limit", "1", "--capture-llm", code=2)
    assert "set ANTHROPIC_API_KEY, or name an endpoint of your own" in done.stderr
    assert KEY not in done.stderr
    assert not (bench.home / "runs").exists()


@pytest.mark.parametrize(
    ("agent", "environ", "options", "wanted"),
    [
        ("codex", {"CODEX_API_KEY": KEY}, {}, "https://api.openai.com/v1"),
        ("codex", {"OPENAI_BASE_URL": "http://x/v1"}, {}, "http://x/v1"),
        ("claude-code", {"ANTHROPIC_API_KEY": KEY}, {}, "https://api.anthropic.com"),
        ("gemini", {"GEMINI_API_KEY": KEY, "GOOGLE_API_KEY": KEY}, {}, "https://generativelanguage.googleapis.com"),
        ("qwen-code", {"OPENAI_API_KEY": KEY}, {}, "https://api.openai.com/v1"),
        ("chat", {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}, {}, "https://api.openai.com/v1"),
        ("chat", {"ANTHROPIC_API_KEY": KEY}, {}, "https://api.anthropic.com"),
        ("chat", {"OPENAI_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://x"}, {}, "https://api.openai.com/v1"),
        ("chat", {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}, {"provider": "anthropic"}, "https://api.anthropic.com"),
    ],
)  # fmt: skip
def test_upstream_is_the_agents_own_endpoint(
    agent: str, environ: dict[str, str], options: dict[str, str], wanted: str
) -> None:
    plugin = load_agent(agent, options, "m")
    assert upstream(plugin, None, options, environ) == wanted
    assert upstream(plugin, "http://127.0.0.1:1/v1", options, environ) == "http://127.0.0.1:1/v1"


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_url_with_a_password_is_refused_before_the_run(bench, how: str) -> None:
    url = f"http://me:{KEY}@127.0.0.1:1/v1"
    named = ("--base-url", url) if how == "option" else ()
    bench.environ |= {"OPENAI_BASE_URL": url} if how == "variable" else {}
    done = bench.run("record", "--agent", "chat", "--model", "m", "--capture-llm", *named, code=2)
    assert "contains a user or password" in done.stderr and KEY not in done.stderr
    assert not (bench.home / "runs").exists()


@pytest.mark.parametrize(
    ("agent", "environ", "advice"),
    [
        ("gemini", {"GOOGLE_API_KEY": KEY}, "set GEMINI_API_KEY"),
        ("codex", {}, "set CODEX_API_KEY or OPENAI_API_KEY"),
        ("opencode", {"ANTHROPIC_API_KEY": KEY}, "name it with --base-url"),
        ("oracle", {}, "uses no model"),
    ],
)
def test_agents_without_a_usable_login_are_refused(agent: str, environ: dict[str, str], advice: str) -> None:
    with pytest.raises(WrongUseError, match=advice):
        upstream(load_agent(agent, {}, "m"), None, {}, environ)


@pytest.mark.parametrize("command", ["kimi acp", "some-agent --acp"])
@pytest.mark.parametrize("base_url", [None, "http://127.0.0.1:1/v1"])
def test_an_endpoint_that_cannot_be_set_is_not_captured(command: str, base_url: str | None) -> None:
    """The advice is never to name an endpoint: the agent would refuse it."""
    options = {"command": command}
    with pytest.raises(WrongUseError, match="leave out --capture-llm"):
        upstream(load_agent("acp", options, None), base_url, options, {})

"""Our own clients as agents: launched the way their plugins say, and read by them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.plugins.cli import agents
from mcp_bench.plugins.contracts import (
    Agent,
    AgentOutput,
    Installation,
    Launch,
    LaunchRequest,
    McpServer,
    Transcript,
)
from mcp_bench.plugins.own_clients.chat import Chat
from mcp_bench.plugins.own_clients.noop import Noop
from mcp_bench.plugins.own_clients.one_action import OneAction
from mcp_bench.plugins.own_clients.oracle import NoReferenceError, Oracle
from mcp_bench.servers.errors import WrongUseError
from tests.support import DESK_SERVER
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.model_endpoint.script import script_from_reference
from tests.support.processes.forked import script_command

pytestmark = pytest.mark.system

PROMPT = "Add two and three."
REFERENCE = {"calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}], "answer": "five"}
KEY = "dummy-key-1234"

Run = Callable[..., Transcript]


@pytest.fixture
def request_for(tmp_path: Path) -> Callable[..., LaunchRequest]:
    """Build a launch request on the desk server, with a private HOME."""
    home, workdir = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    workdir.mkdir()
    command = ("env", f"JOURNAL={tmp_path / 'journal'}", *script_command(DESK_SERVER))

    def build(**parts: Any) -> LaunchRequest:
        return LaunchRequest(
            prompt=PROMPT,
            home=home,
            workdir=workdir,
            server=McpServer("bench", command, ("add",)),
            installation=Installation(sys.executable, "1"),
            **parts,
        )

    return build


@pytest.fixture
def run(tmp_path: Path, request_for: Callable[..., LaunchRequest]) -> Run:
    """Prepare, launch, wait, read: what the referee does with an agent."""

    def go(agent: Agent, **parts: Any) -> Transcript:
        request = request_for(**parts)
        launch = agent.prepare(request)
        out, err = tmp_path / "stdout", tmp_path / "stderr"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            done = subprocess.run(
                launch.argv,
                input=launch.stdin,
                env={"PATH": os.environ["PATH"], "HOME": str(request.home), **launch.env},
                cwd=request.workdir,
                stdout=stdout,
                stderr=stderr,
                timeout=120,
            )
        return agent.read(
            AgentOutput(out, err, request.home, request.workdir, done.returncode), request.server
        )

    return go


def journal(folder: Path) -> list[Any]:
    path = folder / "journal"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def oracle_input(reference: Mapping[str, Any] = REFERENCE) -> bytes:
    return json.dumps(reference).encode()


def test_the_oracle_plays_its_reference(run: Run, tmp_path: Path) -> None:
    transcript = run(Oracle(), reference=oracle_input())
    assert journal(tmp_path) == REFERENCE["calls"]
    assert [message.role for message in transcript.messages] == ["assistant", "tool", "assistant"]
    assert transcript.messages[0].tool_calls[0].function.arguments == {"a": 2, "b": 3}
    assert (transcript.answer, transcript.model, transcript.fault) == ("five", None, None)


def test_an_imperfect_oracle_leaves_out_what_it_is_told_to(run: Run, tmp_path: Path) -> None:
    options = {"drop": "1", "seed": "4", "drop_answer": "yes"}
    transcript = run(Oracle(), reference=oracle_input(), options=options)
    assert journal(tmp_path) == []
    assert (transcript.model, transcript.answer) == (None, "")


def test_the_oracle_is_told_as_trusted() -> None:
    assert Oracle.capabilities.plays_reference
    assert "referee-trusted" in Oracle.summary.lower()


def test_the_solution_is_on_stdin_only(request_for: Callable[..., LaunchRequest]) -> None:
    request = request_for(reference=oracle_input({"calls": [], "answer": "sentinel-answer"}))
    launch = Oracle().prepare(request)
    assert b"sentinel-answer" in launch.stdin
    assert "sentinel-answer" not in str((launch.argv, launch.env))
    files = [path for path in request.home.rglob("*") if path.is_file()]
    assert files and all(b"sentinel-answer" not in path.read_bytes() for path in files)


def test_without_a_reference_the_oracle_says_so(request_for: Callable[..., LaunchRequest]) -> None:
    with pytest.raises(NoReferenceError, match="no reference"):
        Oracle().prepare(request_for())


def test_the_noop_does_nothing(run: Run, tmp_path: Path) -> None:
    assert run(Noop()) == Transcript()
    assert journal(tmp_path) == []


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_chat_solves_a_task_with_the_users_key(run: Run, tmp_path: Path, provider: str) -> None:
    with ModelEndpoint([script_from_reference(PROMPT, REFERENCE)], api_key=KEY) as endpoint:
        url = endpoint.openai_url if provider == "openai" else endpoint.anthropic_url
        environ = {f"{provider.upper()}_API_KEY": KEY, f"{provider.upper()}_BASE_URL": url, "OTHER": "x"}
        transcript = run(Chat(), model="m", environ=environ)
        sent = [request.usage for request in endpoint.answered]
    assert journal(tmp_path) == REFERENCE["calls"]
    assert (transcript.answer, transcript.fault) == ("five", None)
    assert [message.reasoning for message in transcript.messages] == [
        "Step 1: think first.",
        None,
        "Step 2: think first.",
    ]
    assert transcript.usage is not None
    assert transcript.usage.input_tokens == sum(usage.input for usage in sent if usage)
    assert transcript.usage.output_tokens == sum(usage.output for usage in sent if usage)
    assert transcript.usage.cached_tokens == sum(usage.cached for usage in sent if usage)
    assert transcript.usage.model_calls == 2
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert stored and not any(KEY.encode() in text for text in stored), "the key is stored nowhere"


def test_an_endpoint_that_fails_is_a_fault(run: Run) -> None:
    with ModelEndpoint(fault=Fault(status=500, headers={"retry-after-ms": "1"})) as endpoint:
        transcript = run(Chat(), model="m", base_url=endpoint.openai_url, options={"max_retries": "1"})
    assert transcript.fault is not None
    assert transcript.fault.kind == "endpoint_error" and "500" in transcript.fault.detail


@pytest.mark.parametrize(
    ("provider", "failed", "words"),
    [
        ("openai", {"status": 429, "headers": {"retry-after-ms": "1"}}, "HTTP 429"),
        ("anthropic", {"status": 503, "headers": {"retry-after-ms": "1"}}, "HTTP 503"),
        ("openai", {"cut": 0}, "failed attempts at a request: 1"),
    ],
)
def test_chat_ended_while_it_retries_is_a_fault(
    tmp_path: Path,
    request_for: Callable[..., LaunchRequest],
    provider: str,
    failed: Mapping[str, Any],
    words: str,
) -> None:
    """As at a timeout: nothing says that the model could not have solved the task."""
    first, again = Gate(), Gate()
    with ModelEndpoint(fault=Fault(gate=first, **failed)) as endpoint:
        url = endpoint.openai_url if provider == "openai" else endpoint.anthropic_url
        request = request_for(model="m", base_url=url, options={"provider": provider})
        launch = Chat().prepare(request)
        env = {"PATH": os.environ["PATH"], "HOME": str(request.home), **launch.env}
        out = tmp_path / "stdout"
        with (
            out.open("wb") as stdout,
            subprocess.Popen(launch.argv, env=env, stdin=subprocess.PIPE, stdout=stdout) as process,
        ):
            assert process.stdin
            process.stdin.write(launch.stdin)
            process.stdin.close()
            assert first.arrived.wait(60)
            endpoint.fault = Fault(gate=again)
            first.release.set()
            assert again.arrived.wait(60)
            process.kill()
        again.release.set()
    fault = Chat().read(AgentOutput(out, out, request.home, request.workdir, -9), request.server).fault
    assert fault is not None
    assert (fault.kind, fault.detail) == ("endpoint_error", f"ended while it tried again: {words}")


def test_a_request_that_was_retried_is_no_fault(run: Run) -> None:
    fault = Fault(status=500, headers={"retry-after-ms": "1"}, first=1)
    with ModelEndpoint([script_from_reference(PROMPT, REFERENCE)], fault=fault) as endpoint:
        transcript = run(Chat(), model="m", base_url=endpoint.openai_url)
    assert (transcript.answer, transcript.fault) == ("five", None)


def test_chat_passes_its_options_on(request_for: Callable[..., LaunchRequest]) -> None:
    options = {
        "provider": "anthropic",
        "max_steps": "7",
        "temperature": "0.2",
        "system": "a b",
        "thinking": "adaptive",
    }
    launch = Chat().prepare(request_for(model="m", base_url="http://127.0.0.1:1", options=options))
    for flag in (
        "--model=m",
        "--max-steps=7",
        "--system=a b",
        "--thinking=adaptive",
    ):
        assert flag in launch.argv
    # a captured endpoint's URL has a token in it, and other agents can read command lines
    assert launch.env["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert not any("127.0.0.1:1" in word for word in launch.argv)


def test_chat_gets_four_variables_and_no_more(request_for: Callable[..., LaunchRequest]) -> None:
    environ = {
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_API_KEY": "b",
        "AWS_SECRET_ACCESS_KEY": "c",
        "OPENAI_BASE_URL": "",
    }
    launch: Launch = Chat().prepare(request_for(model="m", environ=environ))
    assert launch.env == {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": "b"}
    assert KEY not in " ".join(launch.argv)


@pytest.mark.parametrize(
    ("agent", "parts", "words"),
    [
        (Chat(), {"model": "m"}, "no model endpoint"),
        (Chat(), {"base_url": "http://x"}, "--model"),
        (Chat(), {"model": "m", "base_url": "u", "options": {"max_steps": "0"}}, "max_steps=0"),
        (Chat(), {"model": "m", "base_url": "u", "options": {"temperature": "hot"}}, "temperature=hot"),
        (Chat(), {"model": "m", "base_url": "u", "options": {"provider": "x"}}, "openai, anthropic"),
        (
            Chat(),
            {"model": "m", "environ": {"OPENAI_API_KEY": "k"}, "options": {"provider": "anthropic"}},
            "knows no model endpoint: name one with --base-url, or set ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL",
        ),
        (
            Oracle(),
            {"reference": b"{}", "options": {"drop": "2"}},
            "drop=2: should be a number between 0 and 1",
        ),
        (
            Oracle(),
            {"reference": b"{}", "options": {"drop": "half"}},
            "drop=half: should be a number between",
        ),
        (
            Chat(),
            {"model": "m", "base_url": "u", "options": {"max_steps": "few"}},
            "few: should be a whole number",
        ),
        (Oracle(), {"reference": b"{}", "options": {"drop_answer": "maybe"}}, "true or false"),
        (Chat(), {"model": "m", "base_url": "http://x", "options": {"temperature": "nan"}}, "be a number"),
        (Chat(), {"model": "m", "base_url": "http://x", "options": {"thinking": "9"}}, "provider=anthropic"),
    ],
)
def test_options_that_make_no_sense(
    request_for: Callable[..., LaunchRequest], agent: Agent, parts: dict[str, Any], words: str
) -> None:
    with pytest.raises(WrongUseError, match=words):
        agent.prepare(request_for(**parts))


def test_odd_output_never_raises(tmp_path: Path) -> None:
    lines = [
        b"",
        b"Warning: not JSON",
        b"\xff\xfe",
        b"[1, 2]",
        b'{"type": "message"}',
        b'{"type": "message", "message": {"role": "robot"}}',
        b'{"type": "usage", "usage": {"input_tokens": "many"}}',
        b'{"type": "final", "answer": 5}',
        b"[" * 100_000,
        b'{"type": "message", "message": {"role": "assistant", "content": "still here"}}',
        b'{"type": "message", "message": {"role": "assist',
    ]
    path = tmp_path / "stdout"
    path.write_bytes(b"\n".join(lines))
    output = AgentOutput(path, path, tmp_path, tmp_path, -9)
    transcript = Chat().read(output, McpServer("bench", (), ()))
    assert [message.content for message in transcript.messages] == ["still here"]
    assert transcript.answer == "still here"
    missing = AgentOutput(tmp_path / "none", path, tmp_path, tmp_path, None)
    assert Noop().read(missing, McpServer("bench", (), ())) == Transcript()


def test_agents_lists_each_with_its_options() -> None:
    result = CliRunner().invoke(agents, ["--json"])
    assert result.exit_code == 0
    rows = {row["agent"]: row for row in json.loads(result.stdout)}
    assert {"chat", "noop", "oracle"} <= rows.keys()
    assert all(rows[name]["installed"] and rows[name]["version"] for name in ("chat", "noop", "oracle"))
    assert "drop" in rows["oracle"]["options"]
    assert rows["chat"]["capabilities"]["needs_model"] is True


def test_agents_in_words() -> None:
    result = CliRunner().invoke(agents, [])
    assert result.exit_code == 0
    assert "Referee-trusted" in result.stdout and "--agent-option max_steps" in result.stdout


def test_an_agent_that_is_not_installed_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    rows = {row["agent"]: row for row in json.loads(CliRunner().invoke(agents, ["--json"]).stdout)}
    assert rows["codex"]["installed"] is False
    assert "install" in rows["codex"]["problem"]


def test_one_action_is_the_chat_agent_with_a_flag(request_for: Callable[..., LaunchRequest]) -> None:
    """Its fork is the same as its command, as a launch that skips the imports should be."""
    request = request_for(model="m", environ={"OPENAI_API_KEY": KEY})
    chat, limited = Chat().prepare(request), OneAction().prepare(request)
    assert set(limited.argv) - set(chat.argv) == {"--one-action"}
    assert limited.warm_start is not None and "--one-action" in limited.argv
    assert limited.argv[-len(limited.warm_start.arguments) :] == limited.warm_start.arguments


MAKES = """
import os, signal
from mcp_bench.plugins.own_clients import environment
print(environment.folder(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_process_removes_the_environment_of_a_killed_one(tmp_path: Path) -> None:
    def killed() -> Path:
        done = subprocess.run(
            [sys.executable, "-c", MAKES], stdout=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
        return Path(done.stdout.strip())

    first = killed()
    assert first.is_dir()
    os.utime(first, (0, 0))  # a young one may be about to be locked
    second = killed()
    assert second.is_dir() and not first.exists()

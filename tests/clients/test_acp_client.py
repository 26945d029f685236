"""Our ACP client as a process: what it makes of a plan, and of an agent that is a stand-in."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.test_acp import STARTED
from tests.support.processes.forked import module_command, run_module

pytestmark = pytest.mark.system


def client(tmp_path: Path, plan: dict, *more: str, stdin: str = "x") -> list[dict]:
    """Run our client on a plan; return its events."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    done = run_module(
        "mcp_bench.clients.acp", [f"--plan={path}", *more], env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path,
        stdin=stdin, timeout=90,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def said(events: list[dict]) -> list[str]:
    return [e["update"]["content"]["text"] for e in events if e["type"] == "update"]


def test_a_prompt_for_each_turn_of_the_user(tmp_path: Path) -> None:
    plan = {"command": [*STARTED, "say:heard"]}
    events = client(tmp_path, plan, "--turns", stdin=json.dumps(["one", "two"]))
    assert said(events) == ["heard one", "heard two"]
    assert [e["number"] for e in events if e["type"] == "prompt"] == [0, 1]
    events = client(tmp_path, plan, "--turns", stdin='{"not": "a list"}')
    assert [(e["type"], e["kind"]) for e in events] == [("error", "usage")]


def test_the_first_prompt_is_held_until_the_file_is_there(tmp_path: Path) -> None:
    ready, path = tmp_path / "ready", tmp_path / "held.json"
    plan = {"command": [*STARTED, f"ready:{ready}"], "ready": str(ready)}
    events = client(tmp_path, {**plan, "wait": 1.5})  # seconds; enough time for a prompt
    assert "prompt" not in {e["type"] for e in events}
    assert events[-1]["kind"] == "mcp"
    path.write_text(json.dumps(plan))
    command = module_command("mcp_bench.clients.acp", f"--plan={path}")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("x")
        process.stdin.close()
        opened = [json.loads(process.stdout.readline())["type"] for _ in range(2)]
        ready.touch()
        rest = [json.loads(line) for line in process.stdout]
    assert opened == ["agent", "session"]
    assert said(rest) == ["True"]


@pytest.mark.parametrize(
    "opened", [None, [], {}, {"sessionId": "s", "configOptions": [1]}, {"sessionId": "s", "models": [1]}]
)
def test_a_session_of_another_form_is_named(tmp_path: Path, opened: object) -> None:
    script = f"""if True:
        import json, sys
        for line in sys.stdin:
            asked = json.loads(line)
            result = {opened!r} if asked["method"] == "session/new" else {{}}
            print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)"""
    plan = {"command": [sys.executable, "-c", script], "model": "m", "choices": {"effort": "low"}}
    event = client(tmp_path, plan)[-1]
    assert (event["type"], event["kind"]) == ("error", "usage")
    assert event["detail"].startswith("the agent's session is not as ACP describes it: ")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({}, "command"),
        ({"command": ["x"], "mdoel": "m"}, "'mdoel' is not known"),
        ({"command": ["x"], "allow": "all"}, "'allow' should not be of type str"),
        ({"command": ["/nowhere/at-all"]}, "cannot start /nowhere/at-all"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(tmp_path: Path, plan: dict, words: str) -> None:
    (event,) = client(tmp_path, plan)
    assert event["kind"] == "usage"
    assert words in event["detail"]
